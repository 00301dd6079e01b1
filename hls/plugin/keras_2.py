# SPDX-License-Identifier: Apache-2.0
"""Lets hls4ml 1.3.0 read Keras 2 models (tf_keras, QKeras) where `import keras` is Keras 3, and more of Keras 3's layers.

hls4ml chooses its reader by the version of the installed `keras`, not by the model. Here a model of tf_keras gets the reader
for Keras 2, and hls4ml's profiling sees tf_keras while it works on such a model. `import keras` remains Keras 3.

A layer of a Keras 3 model without a reader of its own (BatchNormalization) is given by hls4ml to da4ml and then to its reader
for Keras 2. The current da4ml raises ValueError there, which hls4ml does not expect; with this module the second reader follows
nevertheless. hls4ml also fails to find layers that HGQ2 has moved to another module; with this module it finds them.

hls4ml loads its plugins while its own package is half imported, so the functions are replaced when their modules are imported.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

#: functions of hls4ml.model.profiling that take a Keras model, as their first argument or as one of these names
_PROFILED = ("numerical", "compare", "get_ymodel_keras", "weights_keras", "activations_keras")
_MODEL = ("model", "keras_model")

_Change = Callable[[ModuleType], None]


def is_keras_2(model: Any) -> bool:
    """Return whether an object is a model of tf_keras, the package of Keras 2."""
    return any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(model).__mro__)


def read_keras_2() -> None:
    """Make hls4ml read Keras 2 models from now on. A second call changes nothing."""
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
        elif not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(name, change))


class _Finder(MetaPathFinder):
    """Finds one module as Python does, and changes it once it is imported."""

    def __init__(self, name: str, change: _Change) -> None:
        self.name, self.change = name, change

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenChanged(spec.loader, self.change)
        return spec


class _ThenChanged(Loader):
    """A module's own loader, and a change to the module after it."""

    def __init__(self, loader: Loader, change: _Change) -> None:
        self.loader, self.change = loader, change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.change(module)


def _change_reader(module: ModuleType) -> None:
    """Change hls4ml.converters.keras_v3_to_hls: it gives Keras 2 models to the reader for Keras 2."""
    own_parse, own_convert = module.parse_keras_v3_model, module.keras_v3_to_hls
    if hasattr(own_parse, "__wrapped__"):
        return

    @functools.wraps(own_parse)
    def parse(model: Any, *options: Any, **named: Any) -> Any:
        if not is_keras_2(model):
            if "hgq" in sys.modules:
                import_module("hypersonic.hls.frontend.keras.hgq").register_moved()
            return own_parse(model, *options, **named)
        reader = import_module("hls4ml.converters.keras_v2_to_hls")
        return reader.parse_keras_model(json.loads(model.to_json()), reader.KerasModelReader(model))

    @functools.wraps(own_convert)
    def convert(config: Mapping[str, Any], *options: Any, **named: Any) -> Any:
        if not is_keras_2(config["KerasModel"]):
            return own_convert(config, *options, **named)
        return import_module("hls4ml.converters.keras_v2_to_hls").keras_v2_to_hls(config)

    dispatcher = module.KerasV3HandlerDispatcher
    own_by_da = dispatcher.da_call

    @functools.wraps(own_by_da)
    def by_da(*arguments: Any, **named: Any) -> Any:
        try:
            return own_by_da(*arguments, **named)
        except ValueError as error:
            raise KeyError(str(error)) from error  # hls4ml continues after a KeyError

    vars(module).update(parse_keras_v3_model=parse, keras_v3_to_hls=convert)
    dispatcher.da_call = by_da


def _change_profiling(module: ModuleType) -> None:
    """Change hls4ml.model.profiling: each function that takes a Keras model sees the Keras that the model is of."""
    for name in _PROFILED:
        if not hasattr(vars(module)[name], "__wrapped__"):
            vars(module)[name] = _profiled(module, vars(module)[name])


def _profiled(module: ModuleType, own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def call(*arguments: Any, **named: Any) -> Any:
        model = next((named[key] for key in _MODEL if key in named), arguments[0] if arguments else None)
        if not is_keras_2(model):
            return own(*arguments, **named)
        with _keras_2_in(module):
            return own(*arguments, **named)

    return call


@contextmanager
def _keras_2_in(module: ModuleType) -> Iterator[None]:
    """Make a module's name `keras` mean tf_keras inside the context, and its list of activation layers those of tf_keras."""
    keras_2 = import_module("tf_keras")
    names = {"keras": keras_2, "__keras_activations": [*vars(module)["__keras_activations"], keras_2.layers.Activation]}
    before = {name: vars(module)[name] for name in names}
    vars(module).update(names)
    try:
        yield
    finally:
        vars(module).update(before)


_CHANGES: dict[str, _Change] = {
    "hls4ml.converters.keras_v3_to_hls": _change_reader,
    "hls4ml.model.profiling": _change_profiling,
}
