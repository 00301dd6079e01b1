# SPDX-License-Identifier: Apache-2.0
"""The steps of the first day, in order. docs/first-card.md has the same table; a test compares the two.

A step runs on what the steps before it have shown, so the first deviation is the one to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypersonic.events.golden import WrongAnswerError
from hypersonic.first_day import kernels, machine, served, units
from hypersonic.first_day.day import Day
from hypersonic.first_day.errors import (
    ClocksError,
    NoBuildError,
    NoCardError,
    NoToolError,
    NotReadyError,
    ReleaseError,
    SelfTestError,
    ShellError,
    SlowLinkError,
    WrongCopyError,
    WrongRowsError,
)
from hypersonic.host.errors import ComputeUnitTimeoutError, MemoryAccessError, XclbinMismatchError


@dataclass(frozen=True)
class Deviation:
    """A deviation that a step can find.

    Attributes:
        error: what the step raises or notes.
        got: the deviation in a few words.
        means: what it means.
        look: where to look, and what to try.
    """

    error: type[Exception]
    got: str
    means: str
    look: str


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        runs: what it runs.
        shows: what it must show.
        deviations: the first one that fits an error is printed; the last one fits all.
        run: raises an error of this package if the step deviates.
    """

    name: str
    runs: str
    shows: str
    deviations: tuple[Deviation, ...]
    run: Callable[[Day], None]

    def deviation(self, error: BaseException) -> Deviation:
        """The deviation that an error is."""
        return next(each for each in self.deviations if isinstance(error, each.error))


_NO_BUILD = Deviation(
    NoBuildError,
    "no build",
    "there is no kernel for this card in the model repository",
    "build both kernels on the machine with Vitis, `hypersonic first-day --build`, and copy the model repository",
)
_OTHER_XCLBIN = Deviation(
    XclbinMismatchError,
    "the xclbin is refused",
    "it is linked for another shell than the card has",
    "`hypersonic inspect` of the xclbin beside `hypersonic devices`: platform and interface uuid",
)
_HUNG = Deviation(
    ComputeUnitTimeoutError,
    "a run does not complete",
    "the kernel waits for its memory, or its clock does not run",
    "`hypersonic devices` (clocks), the counters in docs/registers.md, timing in the manifest's report; reset the card",
)
_MEMORY_ERROR = Deviation(
    MemoryAccessError,
    "the memory answers with errors",
    "the card's memory, or the kernel's connection to it, is faulty",
    "`dmesg`, the step `validate` again, `hypersonic inspect` (memory banks of the compute units)",
)
_CLOCKS = Deviation(
    ClocksError,
    "more clocks than predicted",
    "the memory answers later, or less often, than the model of it; the day goes on",
    "the counters in the note: STARVED_CYCLES for reads, WRITE_ADDRESS_CYCLES and WRITE_DATA_CYCLES for writes",
)
_OTHER = Deviation(
    Exception,
    "another error",
    "XRT, the driver or the server refused a call",
    "docs/errors.md has the message, `dmesg` the driver's",
)


def _wrong_rows(means: str, look: str) -> Deviation:
    return Deviation(WrongRowsError, "wrong answers", means, look)


STEPS = (
    Step(
        "devices",
        "`hypersonic devices`",
        "the card, ready, with the platform's shell, on its full link",
        (
            Deviation(
                NoCardError,
                "no card",
                "XRT is not installed, its driver is not loaded, or it has no card",
                "docs/manual.md, Set up; `lspci -d 10ee:`; without a card: `hypersonic first-day --rehearse`",
            ),
            Deviation(
                NotReadyError,
                "not ready",
                "the shell's second stage is not loaded, or a process uses the card",
                "docs/manual.md, Set up, step 3; `xbmgmt examine`; end the process that is named",
            ),
            Deviation(
                ShellError,
                "another shell",
                "the card has another shell than the kernels are linked for",
                "program the platform's shell, or build for the shell on the card",
            ),
            Deviation(
                ReleaseError,
                "two releases of XRT",
                "library and driver are not from one package",
                "install both from one package; in a container, the host's release",
            ),
            Deviation(
                SlowLinkError,
                "a slow link",
                "the slot has fewer lanes, or the link was trained at a lower rate",
                "the slot, the riser and the BIOS; `lspci -vv` (LnkSta); rates below are lower by as much",
            ),
            _OTHER,
        ),
        machine.show_devices,
    ),
    Step(
        "validate",
        "`xrt-smi validate`, or `xbutil validate`",
        "every test of AMD's passed",
        (
            Deviation(
                NoToolError,
                "no tool of AMD's",
                "XRT's own package is not installed, or its tool does not start",
                "install the package; `source /opt/xilinx/xrt/setup.sh`",
            ),
            Deviation(
                SelfTestError,
                "a test failed",
                "the card, its shell or its installation is faulty; nothing of this project has run",
                "xrt-validate.txt and xrt-examine.txt in the archive, `dmesg`, AMD's page for the card",
            ),
            _OTHER,
        ),
        machine.validate,
    ),
    Step(
        "memory",
        "a pattern to each memory bank that the loopback's units use, and back, without a kernel",
        "every byte as it was written",
        (
            _NO_BUILD,
            Deviation(
                WrongCopyError,
                "wrong bytes",
                "DMA or the card's memory is faulty; no kernel has run",
                "the step `validate` (its DMA and memory tests), `dmesg`, the slot",
            ),
            _OTHER_XCLBIN,
            _OTHER,
        ),
        kernels.check_memory,
    ),
    Step(
        "loopback",
        "a kernel that copies rows: the shell of every kernel, without a network",
        "every byte as it was sent, in no more clocks than predicted",
        (
            _NO_BUILD,
            _wrong_rows(
                "the kernel's AXI side, its place and route, or its clock is faulty: memory is right",
                "which byte and row; timing in the manifest's report; a lower clock (`--kernel-mhz`)",
            ),
            _HUNG,
            _MEMORY_ERROR,
            _CLOCKS,
            _OTHER_XCLBIN,
            _OTHER,
        ),
        kernels.run_loopback,
    ),
    Step(
        "model",
        "the model on one compute unit, one run at a time",
        "csim's integers, in no more clocks than predicted",
        (
            _NO_BUILD,
            _wrong_rows(
                "the core or a converter is faulty, or misses timing: the shell copies rows correctly",
                "the same rows in `hw_emu`; timing in the manifest's report; a lower clock (`--kernel-mhz`)",
            ),
            _HUNG,
            _MEMORY_ERROR,
            _CLOCKS,
            _OTHER_XCLBIN,
            _OTHER,
        ),
        units.run_one_unit,
    ),
    Step(
        "units",
        "each compute unit alone, then all at once",
        "csim's integers from each",
        (
            _NO_BUILD,
            _wrong_rows(
                "one unit misses timing, or is connected to another bank than the xclbin says: the first is right",
                "which unit, alone or only beside others; its die and bank in `hypersonic inspect`",
            ),
            _HUNG,
            _MEMORY_ERROR,
            _OTHER_XCLBIN,
            _OTHER,
        ),
        units.run_all_units,
    ),
    Step(
        "streams",
        "two runs in flight on each unit, copies beside them",
        "csim's integers from every run",
        (
            _NO_BUILD,
            _wrong_rows(
                "arguments are taken at the wrong time, or runs complete out of order: single runs are right",
                "ap_ctrl_chain in docs/registers.md; `[Runtime] verbosity` in xrt.ini; the release of XRT",
            ),
            _HUNG,
            _MEMORY_ERROR,
            _OTHER_XCLBIN,
            _OTHER,
        ),
        units.run_streams,
    ),
    Step(
        "server",
        "`hypersonic serve` with the model, and clients that compare",
        "csim's integers in every answer",
        (
            _NO_BUILD,
            Deviation(
                WrongAnswerError,
                "wrong answers",
                "only many runs show it, or batching causes it: units and streams are right",
                "which rows; server.log in the archive; the steps `units` and `streams` again, several times",
            ),
            _OTHER,
        ),
        served.run_server,
    ),
)

NAMES = tuple(step.name for step in STEPS)
