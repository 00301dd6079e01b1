# SPDX-License-Identifier: Apache-2.0
"""hypersonic: FPGA inference as a service, from a trained network to a served event.

::

    build                        build a trained model into an xclbin and publish it in a model repository
    build_csim, Csim             compile hls4ml's C++ of a trained model, and run it: the golden reference
    Xclbin, Manifest             the contents of an xclbin, and the description of its model
    open_device, Device          load an xclbin into a card, real or emulated
    start_server                 serve a model repository over Triton's protocol for the duration of a `with` block
    Client, AsyncClient          send numpy arrays to the models of one or several running servers
    FixedPoint                   an ap_fixed type: converts numbers to the integers in registers and back

Each name is imported when it is first used, so `import hypersonic` loads neither the server nor the compiler.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

#: the module of each public name; __init__.pyi lists the same for type checkers
_MODULES = {
    "AsyncClient": "hypersonic.client",
    "Client": "hypersonic.client",
    "Csim": "hypersonic.hls.csim.compiled",
    "Device": "hypersonic.host.device",
    "FixedPoint": "hypersonic.hls.fixed",
    "Manifest": "hypersonic.firmware.publish.manifest",
    "Xclbin": "hypersonic.firmware.xclbin.container",
    "build": "hypersonic.building.model",
    "build_csim": "hypersonic.building.csim",
    "open_device": "hypersonic.host.opening",
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
