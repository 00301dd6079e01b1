# SPDX-License-Identifier: Apache-2.0
"""The answers of a core, from its RTL in Verilator or from its exact model, which needs no compiler.

The models are those of the tests: the adders of a da core, and the layers of an rf core in Python integers. For layers that
have no such model (recurrent ones) the RTL answers.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Any

import hls4ml  # noqa: F401 - before our plugin, which it loads
import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.da import write
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.fixed import MAX_WIDTH, FixedPoint
from hypersonic.hls.model_graph import TensorType, tensor_types
from hypersonic.hls.network.base import Network
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.plugin import hls4ml_backend
from hypersonic.hls.plugin.words import word_bits
from hypersonic.hls.rf import write as rf_write
from hypersonic.hls.rtl.simulate import RtlCore

Numbers = NDArray[np.int64]


class Engine:
    """Answers the plugin's predict() instead of the RTL; with `rtl`, the RTL answers."""

    def __init__(self, *, rtl: bool) -> None:
        self.rtl = rtl
        self._last: AdderGraph | Network | None = None
        self._models: dict[Path, tuple[AdderGraph | Network, list[TensorType]]] = {}
        if not rtl:
            self._follow()

    def _follow(self) -> None:
        """Keep the model of each core that is written, and answer with it."""
        own_adders, own_rf, own_core = vars(write)["adder_graph"], vars(rf_write)["write_rf_core"], hls4ml_backend.core_of

        def adders(*arguments: Any, **named: Any) -> AdderGraph:
            self._last = graph = own_adders(*arguments, **named)
            return graph

        def write_rf(network: Network, *arguments: Any, **named: Any) -> Any:
            written = own_rf(network, *arguments, **named)
            self._last = network
            return written

        def core_of(model: Any) -> tuple[Core, dict[str, Any]]:
            written = own_core(model)
            assert self._last is not None
            outputs = tensor_types(model, wide_outputs=True)[1]
            self._models[Path(model.config.get_output_dir(), "core").resolve()] = self._last, list(outputs)
            return written

        places = ((write, "adder_graph", adders), (rf_write, "write_rf_core", write_rf), (hls4ml_backend, "core_of", core_of))
        for module, name, instead in (*places, (hls4ml_backend, "RtlCore", self._answering)):
            setattr(module, name, instead)

    def _answering(self, core: Core) -> Any:
        model = self._models.get(core.sources[-1].parent.resolve())
        return RtlCore(core) if model is None else _Model(core, *model)


class _Model:
    """The methods of RtlCore that predict() uses."""

    def __init__(self, core: Core, model: AdderGraph | Network, outputs: list[TensorType]) -> None:
        self.core, self.model, self.outputs = core, model, outputs

    def predict_raw(self, x_raw: Numbers) -> Numbers:
        try:
            y = self.model.evaluate_wide(x_raw) if isinstance(self.model, AdderGraph) else evaluate(self.model, x_raw)
        except TypeError:  # a layer without a model
            with RtlCore(self.core) as rtl:
                return rtl.predict_raw(x_raw)
        ends = np.cumsum([math.prod(output.shape) for output in self.outputs])
        parts = np.split(y, ends[:-1], axis=1)
        return np.concatenate([_words(part, output.fixed) for part, output in zip(parts, self.outputs, strict=True)], axis=1)

    def __enter__(self) -> _Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


def _words(values: NDArray[Any], fixed: FixedPoint) -> Numbers:
    """The elements as the core's row has them (plugin/words.py): (rows, size) -> (rows, size * words of an element)."""
    if fixed.width <= MAX_WIDTH:
        return values.astype(np.int64)
    bits = word_bits(fixed)
    words = [values.astype(object) >> at & (1 << bits) - 1 for at in range(0, fixed.width, bits)]
    return np.stack(words, axis=2).reshape(len(values), -1).astype(np.int64)
