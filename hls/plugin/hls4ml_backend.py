# SPDX-License-Identifier: Apache-2.0
"""The hls4ml backend `Hypersonic`, which gives users of hls4ml the RTL core without the rest of the stack::

    model = hls4ml.converters.convert_from_keras_model(keras_model, hls_config=config, backend="Hypersonic", output_dir="prj")
    model.compile()       # writes prj/ (Vitis HLS project) and prj/core/ (SystemVerilog), and Verilates the core
    y = model.predict(x)  # runs the RTL; equal to backend="Vitis" bit for bit
    model.trace(x)        # each layer's numbers, from the project's C++
    model.build()         # lints the core and returns its figures

The project beside the core is the one that the Vitis backend writes, with corrections (frontend/repairs.py). hls4ml's Strategy
`distributed_arithmetic` and `Latency` both select the da core; the C++ is written with Latency, which computes the same bits.
`Resource` or `ResourceUnrolled` on any layer selects the rf core for all layers. A model that the da core does not compute gets
the rf core, with a line in the log, one in io_stream for example.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from hls4ml.backends import VitisBackend, VivadoBackend, get_backend
from hls4ml.backends.fpga.passes.hgq_proxy_model import ProcessFixedPointQuantizerLayer, generate_mask_fn
from hls4ml.backends.vivado.passes.unrolled_codegen import GenerateUnrolledDenseResource
from hls4ml.model.flow import get_flow, register_flow
from hls4ml.model.types import Source
from hls4ml.writer import VitisWriter
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.cores import write_core_of
from hypersonic.hls.errors import INSTEAD, ConversionError, ProjectError, UnsupportedLayerError
from hypersonic.hls.frontend.passes.flow import PADDINGS, InPlace, register_normalization_types, register_possible_settings
from hypersonic.hls.frontend.passes.flow import register as register_fusions
from hypersonic.hls.frontend.passes.types import narrow_type
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.frontend.softmax.error import USUAL, probability_errors
from hypersonic.hls.frontend.softmax.faults import faults
from hypersonic.hls.frontend.traps import check_graph
from hypersonic.hls.model_graph import model_settings, strategy_of, tensor_types
from hypersonic.hls.plugin.words import in_words, to_floats
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, compile_cores
from hypersonic.hls.verilator import LOG, lint, warnings

#: an array for one tensor, or a list of arrays for several, in the model's order
Arrays = NDArray[np.floating[Any]] | list[NDArray[np.floating[Any]]]

_LOG = logging.getLogger(__name__)


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class _WholeModels(VitisWriter):  # type: ignore[misc]
    """Stands between HypersonicWriter and VitisWriter, because a MultiModelGraph calls the writer's base class."""

    def write_hls(self, model: Any, is_multigraph: bool = False) -> None:
        """Write the project of a ModelGraph. Raises ConversionError for one of several stitched graphs."""
        if is_multigraph:
            raise ConversionError(
                "to_multi_model_graph() stitches Vitis' IPs, and the backend Hypersonic makes one core of a whole model: "
                "convert the model with backend='Vitis', or do not split it"
            )
        super().write_hls(model)


class HypersonicWriter(_WholeModels):
    """Writes the Vitis project, and the RTL core into its folder core/."""

    def write_hls(self, model: Any, is_multigraph: bool = False) -> None:
        """Write the project of a ModelGraph; hls4ml's write flow calls this.

        Raises UnsupportedLayerError, with the layer's name, for a layer that hls4ml or the core would compute wrongly.
        """
        _check_exact(model)
        check_graph(model, inexact_softmax=True)
        for layer in model.get_layers():
            if layer.class_name == "Softmax":
                _warn_of_errors(layer)
            if wrong := narrow_type(layer):
                _warn_of_type(layer, wrong)
        super().write_hls(model, is_multigraph)
        repair(_directory(model).parent)
        core_of(model)


class HypersonicBackend(VitisBackend):  # type: ignore[misc]
    """The Vitis backend up to the written project; compile, predict and build work on the RTL core."""

    def __init__(self) -> None:
        super(VivadoBackend, self).__init__(name="Hypersonic")
        self._register_layer_attributes()
        self._register_flows()

    def _register_flows(self) -> None:
        self.register_pass("unrolled_strategy", InPlace(unrolled_strategy))
        unroll = register_flow("strategy", ["hypersonic:unrolled_strategy"], requires=["vivado:init_layers"], backend=self.name)
        fusions = register_fusions()
        flows = get_flow("vitis:ip").requires.copy()
        flows.insert(flows.index("vivado:init_layers") + 1, unroll)
        self.register_pass("unrolled_resource", UnrolledResource)
        self.register_pass("quantiser_code", QuantiserCode)
        own = {
            "vivado:generate_unrolled_dense_resource": "hypersonic:unrolled_resource",
            "vivado:process_fixed_point_quantizer_layer": "hypersonic:quantiser_code",
        }
        optimize = self._with("optimize", own)
        flows[flows.index("vivado:optimize")] = optimize
        at = flows.index("vivado:specific_types")
        flows[at : at + 1] = [
            register_possible_settings(),
            register_normalization_types(),
            self._with("specific_types", own),
        ]
        flows[flows.index("vivado:streaming")] = self._with("streaming", PADDINGS)
        flows.insert(0, fusions)
        self._default_flow = register_flow("ip", None, requires=flows, backend=self.name)
        passes = ["make_stamp", "hypersonic:write_hls"]
        self._writer_flow = register_flow("write", passes, requires=[self._default_flow], backend=self.name)

    def _with(self, flow: str, own: Mapping[str, str]) -> str:
        """Register the Vivado backend's flow of this name with passes of ours for some of its own; return its new name."""
        stock = get_flow(f"vivado:{flow}")
        passes = [own.get(name, name) for name in stock.optimizers]
        return str(register_flow(flow, passes, requires=list(stock.requires), backend=self.name))

    def compile(self, model: Any) -> str:
        """Verilate the written core; return the path of its shared library, or of the C++'s if the model is traced.

        `trace()` reads the numbers of every layer from hls4ml's C++, which computes the core's answers. Verilator's warnings
        become Python warnings. Raises ProjectError if no core is written, and ToolError if a tool fails.
        """
        library = compile_cores([_written(model)])
        _warn((library.parent / LOG).read_text())
        return str(super().compile(model)) if model.config.trace_output else str(library)

    def predict(self, model: Any, x: Arrays) -> Arrays:
        """Simulate the RTL.

        Several inputs are a list of such arrays, and so are several outputs. Shapes are those of hls4ml's own predict, and
        inputs are rounded by the input type's modes, as in its C++. Raises ValueError for arrays that are not rows of the
        input's shape, which hls4ml would cut into rows regardless.

        Args:
            x: (rows, ...) float32 or float64 -> (rows, n_out) in x's dtype; a single row gives (n_out,).

        Raises:
            TypeError: For other dtypes, as hls4ml does: the answers have the inputs' dtype, and integers would lose the
                fraction.
        """
        core = _written(model)
        parts = [np.asarray(part) for part in (x if len(core.inputs.tensors) > 1 else [x])]
        _check_arrays(core, parts)
        numbers = zip(core.inputs.tensors, parts, strict=True)
        x_raw = np.concatenate([spec.fixed.from_float(part.reshape(-1, spec.size)) for spec, part in numbers], axis=1)
        with RtlCore(core) as rtl:
            raw = core.outputs.split(rtl.predict_raw(x_raw))
        answers = zip(raw, tensor_types(model, wide_outputs=True)[1], strict=True)
        y = [to_floats(answer, kind.fixed, parts[0].dtype) for answer, kind in answers]
        y = [answer[0] for answer in y] if len(x_raw) == 1 else y
        return y if len(y) > 1 else y[0]

    def build(self, model: Any, **options: Any) -> dict[str, Any]:  # noqa: ARG002 - hls4ml's signature
        """Write the core, lint it with `verilator -Wall`, and return {"CoreReport": figures}.

        Verilator's warnings become Python warnings. Raises UnsupportedLayerError, and ToolError if Verilator fails.
        """
        core, figures = core_of(model)
        # -Wno-fatal: a warning does not change the core, so the user gets it as a Python warning, not as a failed build
        _warn(lint(core.sources, core.top, "-Wno-fatal"))
        return {"CoreReport": figures}


def _check_arrays(core: Core, parts: list[NDArray[Any]]) -> None:
    for spec, part in zip(core.inputs.tensors, parts, strict=True):
        if part.dtype not in (np.float32, np.float64):
            raise TypeError(
                f"input {spec.name!r} is an array of {part.dtype}, expected float32 or float64, which is also the answers' "
                "dtype: use x.astype(numpy.float32)"
            )
        if part.size != spec.size and (part.ndim == 0 or part.shape[0] * spec.size != part.size):
            wanted = " or ".join(
                dict.fromkeys(f"({', '.join(map(str, ('rows', *shape)))})" for shape in (spec.shape, (spec.size,)))
            )
            raise ValueError(f"input {spec.name!r} is an array of shape {part.shape}, expected {wanted}")
    rows = {spec.name: part.size // spec.size for spec, part in zip(core.inputs.tensors, parts, strict=True)}
    if len(set(rows.values())) > 1:
        raise ValueError(f"the inputs have different numbers of rows: {rows}")


def core_of(model: Any) -> tuple[Core, dict[str, Any]]:
    """Write the core of a ModelGraph into core/ of its output directory; return the core and its figures.

    Raises UnsupportedLayerError, with the layer's name, for a layer that the core cannot compute exactly.
    """
    types = tensor_types(model, wide_outputs=True)
    variables = model.get_input_variables(), model.get_output_variables()
    inputs, outputs = (
        Row(tuple(in_words(v.name, kind) for v, kind in zip(*side, strict=True))) for side in zip(variables, types, strict=True)
    )
    where = model.config.get_project_name(), inputs, outputs, _directory(model)
    if any(strategy_of(layer).startswith("resource") for layer in model.get_layers()):
        core, report = write_core_of(model, CoreKind.RF, *where)
        return core, report["core"]
    try:
        core, report = write_core_of(model, CoreKind.DA, *where)
    except UnsupportedLayerError as error:
        why = _own_words(error)
        try:
            core, report = write_core_of(model, CoreKind.RF, *where)
        except UnsupportedLayerError as other:
            raise UnsupportedLayerError(f"da core: {why}; rf core (Strategy Resource): {_own_words(other)}") from other
        text = "the core is rf, not da: %s. An rf core has reuse factors: set Strategy Resource and ReuseFactor"
        _LOG.warning(text, why)
    return core, report["core"]


def _own_words(error: UnsupportedLayerError) -> str:
    """A core's reason, without remedies that `hypersonic build` has and the plugin has not."""
    return str(error.__cause__ or error).replace(f"; {INSTEAD}", "")


def _warn_of_errors(layer: Any) -> None:
    """Issue a Python warning for a softmax with inexact probabilities, with the size of the error."""
    causes = [str(cause) for cause in faults(layer)]
    if not causes:
        return
    usual, worst = probability_errors(layer)
    warn(
        f"{causes[0]}. The core computes what hls4ml's C++ does: probabilities were up to {usual:.2g} off for numbers within "
        f"{USUAL:g} of 0, and up to {worst:.2g} over all that can reach the layer. Write config['Model']['softmax'] = 'exact' "
        "for correct types",
        stacklevel=2,
    )


def _check_exact(model: Any) -> None:
    settings = model_settings(model)
    for name in ("softmax", "types"):
        if settings.get(name, "exact") != "exact":
            raise ConversionError(f"config['Model'][{name!r}] is {settings[name]!r}, expected 'exact', or leave it out")


def _warn_of_type(layer: Any, wrong: str) -> None:
    table = f", and config['LayerName'][{layer.name!r}]['TableRangePower2'] = -4 for a table up to a variance of 16"
    remedy = table if layer.class_name == "LayerNormalization" else ""
    warn(
        f"layer {layer.name!r}: {wrong}. The core computes what hls4ml's C++ does. Write config['Model']['types'] = 'exact' "
        f"for types that hold the sums, where the configuration leaves them open ('auto'){remedy}",
        stacklevel=2,
    )


def _warn(log: str) -> None:
    """Issue a Python warning for each of Verilator's. There should be none, but the core is used in any case."""
    for line in warnings(log):
        warn(f"Verilator warns of the core, which is used nevertheless; please report it with the model: {line}", stacklevel=3)


def _written(model: Any) -> Core:
    """Return the core of a model. Raises ProjectError if it is not written yet."""
    if not (directory := _directory(model)).is_dir():
        raise ProjectError(f"{directory} does not exist: call the model's compile() or write() first")
    return Core.load(directory)


def _directory(model: Any) -> Path:
    return Path(model.config.get_output_dir()) / "core"


def unrolled_strategy(node: Any) -> None:
    """Change Strategy distributed_arithmetic to Latency for the C++: hls4ml 1.3.0's own pass needs an older da4ml."""
    if strategy_of(node) == "distributed_arithmetic":
        node.set_attr("strategy", "latency")


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class UnrolledResource(GenerateUnrolledDenseResource):  # type: ignore[misc]
    """Writes the C++ of Strategy ResourceUnrolled as for Vitis."""

    def _add_backend_specific_pragmas_to_generated_code(self, code: str, backend: Any) -> Any:  # noqa: ARG002
        return super()._add_backend_specific_pragmas_to_generated_code(code, get_backend("Vitis"))


class QuantiserCode(ProcessFixedPointQuantizerLayer):  # type: ignore[misc]
    """Writes the C++ of a quantiser of HGQ2 as for Vitis."""

    def transform(self, model: Any, node: Any) -> None:
        """Set the code in place. Raises UnsupportedLayerError in io_stream, which hls4ml's C++ has no code for."""
        if model.config.get_config_value("IOType") != "io_parallel":
            raise UnsupportedLayerError(
                f"layer {node.name!r}: hls4ml computes HGQ2's quantisers in io_parallel only; use io_type='io_parallel'"
            )
        code = generate_mask_fn(node.name, node.get_input_variable().shape, *node.mask_kbi, node.RND, node.SAT, "vitis")
        node.set_attr("mask_fn_codegen", Source(code))
