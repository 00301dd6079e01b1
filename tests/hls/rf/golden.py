# SPDX-License-Identifier: Apache-2.0
"""hls4ml's C++ of either io_type with any number of tensors, compiled and called with raw integers."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.rf.layers import RfNetwork
from hypersonic.hls.verilator import run

_BRIDGE = Path(__file__).with_name("stream_bridge.cpp")
#: -O0 where numbers are few: most of the time goes into the compiler
_FLAGS = ("-std=c++17", "-O0", "-fPIC", "-shared", "-fno-gnu-unique", "-fvisibility=hidden", "-w", "-Wl,-Bsymbolic")


def golden(network: RfNetwork, hls: Path, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """hls: the written HLS project. x_raw: (rows, elements of all inputs) -> (rows, elements of all outputs)."""
    firmware = hls / "firmware"
    sizes = [tensor.size for tensor in (*network.inputs, *network.outputs)]
    macros = [
        f'-DHYPERSONIC_HEADER="{network.name}.h"',
        f"-DHYPERSONIC_TOP={network.name}",
        f'-DWEIGHTS_DIR="{firmware.resolve() / "weights"}"',
        f"-DHYPERSONIC_INPUTS={len(network.inputs)}",
        f"-DHYPERSONIC_SIZES={','.join(map(str, sizes))}",
    ]
    source = firmware / f"{network.name}.cpp"

    def build(directory: Path) -> None:
        includes = [f"-I{firmware.resolve()}", f"-I{(firmware / 'ap_types').resolve()}"]
        both = directory / "both.cpp"  # one file: hls4ml's headers cost more than the network
        both.write_text(f'#include "{source.resolve()}"\n#include "{_BRIDGE}"\n')
        run(["g++", *_FLAGS, *macros, *includes, both, "-o", "csim.so"], directory)

    library = cached("csim", [*_FLAGS, *macros, firmware, source, _BRIDGE], build) / "csim.so"
    function = ctypes.CDLL(str(library)).hypersonic_csim
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    x = np.ascontiguousarray(x_raw, dtype=np.int64)
    y = np.zeros((len(x), sum(tensor.size for tensor in network.outputs)), dtype=np.int64)
    assert x.shape[1] == sum(tensor.size for tensor in network.inputs)
    assert function(x.ctypes.data, y.ctypes.data, len(x)) == 0
    return y


def random_rows(network: RfNetwork, count: int, seed: int) -> NDArray[np.int64]:
    """Half of them anywhere in the range, half near zero, and both ends."""
    rng, parts = np.random.default_rng(seed), []
    for tensor in network.inputs:
        low, high = tensor.precision.low, tensor.precision.high
        x = rng.integers(low, high, (count, tensor.size), endpoint=True)
        x[count // 2 :] >>= rng.integers(0, tensor.precision.width, (count - count // 2, 1))
        x[0], x[1] = low, high
        parts.append(x)
    return np.concatenate(parts, axis=1)
