# SPDX-License-Identifier: Apache-2.0
"""Model configurations for tests of the HTTP codec."""

from __future__ import annotations

from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.read import parse_config
from hypersonic.server.core.config.schema import ModelConfig


def model_config(inputs: dict[str, tuple[str, tuple[int, ...]]], max_batch_size: int = 0) -> ModelConfig:
    """name -> (datatype, dims); outputs are y and z."""
    tensors: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
        "input": inputs,
        "output": {"y": ("FP32", (1,)), "z": ("FP32", (1,))},
    }
    text = "".join(
        f'{kind} {{ name: "{name}" data_type: TYPE_{datatype.replace("BYTES", "STRING")} dims: {list(dims)} }}\n'
        for kind, named in tensors.items()
        for name, (datatype, dims) in named.items()
    )
    return check_config(parse_config(f'name: "m" backend: "sum" max_batch_size: {max_batch_size}\n{text}', "config.pbtxt"))


CONFIG = model_config({"x": ("FP32", (3,))}, max_batch_size=4)
