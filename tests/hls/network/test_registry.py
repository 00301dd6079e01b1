# SPDX-License-Identifier: Apache-2.0
"""Every layer of a network has a file with its class, its reader and what it computes."""

from __future__ import annotations

import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hypersonic.hls.da.lower import _UNROLL
from hypersonic.hls.network import layers
from hypersonic.hls.network.base import OneInput, TwoInputs
from hypersonic.hls.network.collect import collect
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.dot import Dot
from hypersonic.hls.network.layers.garnet import GarNet
from hypersonic.hls.network.registry import ACTIVATIONS, READERS
from hypersonic.hls.rf.registry import STAGES

LAYERS = collect(layers, pkgutil.iter_modules(layers.__path__), "LAYER", LayerType)


def nouns(kind: type) -> Iterator[type]:
    """The classes of layers in a network: subclasses without subclasses of their own."""
    subclasses: list[type] = kind.__subclasses__()
    for below in subclasses:
        yield from nouns(below) if below.__subclasses__() else [below]


def test_every_layer_that_a_network_can_have_has_one_file() -> None:
    assert Counter(layer.noun for layer in LAYERS.values()) == Counter({*nouns(OneInput), *nouns(TwoInputs)})


#: what rf/read.py reads as other layers, or the rf core refuses
NO_STAGE: list[type] = [Dot, GarNet]

#: what the da core refuses
NO_ADDERS: list[type] = []


def test_every_layer_has_stages_in_the_rf_core_that_it_does_not_read_as_others() -> None:
    planned = [kind.layer.noun for kind in STAGES.values() if kind.layer]
    assert Counter(layer.noun for layer in LAYERS.values()) == Counter([*planned, *NO_STAGE])


def test_every_layer_is_computed_by_the_da_core_unless_it_is_refused() -> None:
    assert Counter(layer.noun for layer in LAYERS.values()) == Counter([*_UNROLL, *NO_ADDERS])


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_read_from_hls4mls_graph(name: str) -> None:
    assert LAYERS[name].readers or LAYERS[name].activations


def test_no_name_of_hls4mls_is_read_by_two_layers() -> None:
    assert sum(len(layer.readers) for layer in LAYERS.values()) == len(READERS) >= 20
    assert sum(len(layer.activations) for layer in LAYERS.values()) == len(ACTIVATIONS) >= 15


def package(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    (module := ModuleType(name)).__path__ = [str(tmp_path / name)]
    monkeypatch.setitem(sys.modules, name, module)
    return module


def found(module: ModuleType) -> object:
    return collect(module, pkgutil.iter_modules(module.__path__), "LAYER", LayerType)


def test_a_folder_without_modules_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="nothing_here has no modules, expected at least one with a LAYER"):
        found(package(tmp_path, "nothing_here", monkeypatch))


def test_a_file_without_the_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = package(tmp_path, "odd_layers", monkeypatch)
    (tmp_path / "odd_layers" / "nothing.py").write_text("NOTHING = 1\n")
    with pytest.raises(ImportError, match="odd_layers: nothing has no LAYER, expected a LayerType in every file"):
        found(odd)
