# SPDX-License-Identifier: Apache-2.0
"""hypersonic: FPGA inference as a service, from a trained network to a served event.

    build            a trained model -> an xclbin in a model repository
    build_csim       a trained model -> hls4ml's C++, compiled; Csim computes with it: the golden reference
    Xclbin           what is inside an xclbin; Manifest: what is known of the model beside it
    open_device      an xclbin on a card, real or emulated -> Device
    start_server     Triton's protocol over a model repository, for as long as a `with` block lasts
    describe_model   what a running server says of a model; send_events: numpy arrays through it, from several clients
    FixedPoint       ap_fixed: numbers <-> the integers in registers

Each name is imported from its room when it is first used: `import hypersonic` loads neither the server nor the compiler.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

#: name -> the module that has it; __init__.pyi says the same to type checkers
_MODULES = {
    "Csim": "hypersonic.hls.csim.compiled",
    "Device": "hypersonic.host.device",
    "FixedPoint": "hypersonic.hls.fixed",
    "Manifest": "hypersonic.firmware.publish.manifest",
    "Xclbin": "hypersonic.firmware.xclbin.container",
    "build": "hypersonic.building.model",
    "build_csim": "hypersonic.building.csim",
    "describe_model": "hypersonic.client.load",
    "open_device": "hypersonic.host.opening",
    "send_events": "hypersonic.client.load",
    "start_server": "hypersonic.server_process",
}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - keys, which are strings


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'hypersonic' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
