# SPDX-License-Identifier: Apache-2.0
"""Versions for the backend Hypersonic of those passes of hls4ml that accept only the backends they know."""

from __future__ import annotations

from typing import Any

from hls4ml.backends import get_backend
from hls4ml.backends.fpga.passes.hgq_proxy_model import ProcessFixedPointQuantizerLayer, generate_mask_fn
from hls4ml.backends.vivado.passes.unrolled_codegen import GenerateUnrolledDenseResource
from hls4ml.model.types import Source

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.model_graph import strategy_of


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
