# SPDX-License-Identifier: Apache-2.0
"""What XRT wants to find before it runs in its `hw_emu` mode: directories, files and variables.

    hypersonic_xrt_.../          under /tmp, where XRT is fixed to write; removed at the end
    |-- xrt/lib/                 XILINX_XRT: links to the installed libraries
    |-- emconfig.json            EMCONFIG_PATH: which card this machine has
    |-- xrt.ini                  XRT_INI_PATH: where the device process is
    |-- sim/simulate.sh          starts it
    `-- run/                     XRT's own working directory

XRT puts its socket into /tmp/$USER, so that USER is the name of the directory.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.host.library import OVERRIDE

LIBRARIES = ("libxrt_coreutil.so.2", "libxrt_core.so.2", "libxrt_hwemu.so.2")
#: where XRT's own packages and the distributions' put them, after $XILINX_XRT
PLACES = ("/opt/xilinx/xrt/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")

#: fixed in XRT
_SOCKET_ROOT = Path("/tmp")  # noqa: S108 -- XRT's choice; what is ours below it is made by mkdtemp
#: XRT 2.13 writes behind its message buffer when a message is longer than the first one, its [Emulation] settings. So
#: these are made long, at the price of a warning about an unknown one, and buffers travel in pieces that are shorter.
_PADDING_BYTES = 400_000
_PACKET_BYTES = 1 << 16


class XrtNotFoundError(ValueError):
    """XRT's libraries are not on this machine."""


def find_xrt() -> Path:
    """The directory of XRT's libraries with its hw_emu mode. Raises XrtNotFoundError, which says what to install."""
    own = os.environ.get("XILINX_XRT")
    places = [Path(place) for place in ([f"{own}/lib"] if own else []) + list(PLACES)]
    for place in places:
        if all((place / name).exists() for name in LIBRARIES):
            return place
    raise XrtNotFoundError(
        f"XRT with its hw_emu mode is not installed ({', '.join(LIBRARIES)}): install Debian 12's libxrt1 or set XILINX_XRT"
    )


@contextmanager
def xrt_environment(xclbin: Path) -> Iterator[dict[str, str]]:
    """The environment of a process that shall see a card with real XRT and this xclbin on it.

    One process at a time may load it. Raises XclbinError for a bad file, ValueError for one that is not built for hw_emu or
    holds no simulator of this machine, XrtNotFoundError, OSError.
    """
    contents = Xclbin.read(xclbin)
    if contents.target is not Target.HW_EMU:
        raise ValueError(f"{xclbin} is built for target {contents.target}, expected hw_emu: build the model for it")
    libraries = find_xrt()
    _check_loads(xclbin)
    with tempfile.TemporaryDirectory(prefix="hypersonic_xrt_", dir=_SOCKET_ROOT) as name, _no_debug_log():
        directory = Path(name)
        _link_libraries(directory / "xrt" / "lib", libraries)
        _write_simulator(directory / "sim", xclbin)
        (directory / "run").mkdir()
        (directory / "emconfig.json").write_text(json.dumps(_emconfig(contents.vbnv)))
        (directory / "xrt.ini").write_text(_ini(directory / "sim"))
        yield {**os.environ, **_variables(directory)}


def _device_process(xclbin: Path) -> list[str]:
    return python_argv("-m", "hypersonic.sim.xrt_bridge.card", str(xclbin.resolve()))


def _check_loads(xclbin: Path) -> None:
    """XRT waits for five minutes for a device process that cannot start: try before."""
    done = subprocess.run(_device_process(xclbin), env=python_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{xclbin} cannot be simulated, build the model again: {done.stderr.strip()}")


@contextmanager
def _no_debug_log() -> Iterator[None]:
    """XRT writes a log of nothing beside the program that is run, here Python's. Not left there when it was not before."""
    log = Path(sys.executable).resolve().with_name("emulation_debug.log")
    before = log.exists()
    try:
        yield
    finally:
        if not before:
            log.unlink(missing_ok=True)


def _variables(directory: Path) -> dict[str, str]:
    return {
        "XCL_EMULATION_MODE": "hw_emu",
        "XILINX_XRT": str(directory / "xrt"),
        "EMCONFIG_PATH": str(directory),
        "XRT_INI_PATH": str(directory / "xrt.ini"),
        "SDACCEL_EM_RUN_DIR": str(directory / "run"),
        "USER": directory.name,
        OVERRIDE: str(directory / "xrt" / "lib" / LIBRARIES[0]),
    }


def _link_libraries(directory: Path, installed: Path) -> None:
    """XRT looks for its shims and plugins below XILINX_XRT, where Debian does not put them."""
    (directory / "xrt" / "module").mkdir(parents=True)
    for name in LIBRARIES:
        (directory / name).symlink_to(installed / name)


def _write_simulator(directory: Path, xclbin: Path) -> None:
    directory.mkdir()
    script = directory / "simulate.sh"
    # Ctrl-C and a service manager reach it too, but a host whose device is gone never ends: it goes when its host does.
    path = shlex.quote(python_environment()["PYTHONPATH"])
    device = f'{shlex.join(_device_process(xclbin))} "{_SOCKET_ROOT}/$USER/$EMULATION_SOCKETID"'
    script.write_text(f'#!/bin/sh\ntrap "" INT TERM\nexport PYTHONPATH={path}\nexec {device}\n')
    script.chmod(0o700)


def _ini(simulator: Path) -> str:
    return f"[Emulation]\nsim_dir={simulator}\npacket_size={_PACKET_BYTES}\npadding={'.' * _PADDING_BYTES}\n"


def _emconfig(vbnv: str) -> dict[str, object]:
    """One card. XRT wants all values as text."""
    device = {
        "Name": vbnv,
        "HalMajorVersion": "2",
        "HalMinorVersion": "0",
        "VendorId": "4334",
        "NumDevices": "1",
        "DdrBanks": [{"Size": "16GB"}],
        "FeatureRom": {},
    }
    return {
        "Version": {"FileVersion": "2.0", "ToolVersion": "2022.1"},
        "Platform": {"UnifiedPlatform": "true", "ExpandedPR": "true", "Boards": [{"NumBoards": "1", "Devices": [device]}]},
    }
