# SPDX-License-Identifier: Apache-2.0
"""The deviations that the steps find by themselves. Other errors of this package are deviations of the step that they end."""

from __future__ import annotations


class DeviationError(RuntimeError):
    """A step has not shown what it must show. The message says what it got and what it expected."""

    exit_code = 1


class MachineError(DeviationError):
    """The machine has to be corrected before the step can show anything."""

    exit_code = 2


class NoBuildError(RuntimeError):
    """The model repository has no build for this day. The message says how to make one."""


class NoCardError(MachineError):
    """There is no card that XRT drives."""


class NotReadyError(MachineError):
    """The card is there, and cannot be used now."""


class ShellError(MachineError):
    """The card has another shell than the bitstreams are linked for."""


class ReleaseError(MachineError):
    """XRT's library and the driver are of different releases."""


class SlowLinkError(MachineError):
    """The card's PCI Express link has fewer lanes, or a lower generation, than the card has."""


class SelfTestError(DeviationError):
    """AMD's own test of the card failed, or could not be run."""


class NoToolError(SelfTestError, MachineError):
    """AMD's tool is not there, or does not start."""


class WrongCopyError(DeviationError):
    """The bytes that were read from the card's memory are not those that were written."""


class WrongRowsError(DeviationError):
    """The kernel's answers are not those that were expected."""


class ClocksError(DeviationError):
    """The kernel took more clocks than it should. The answers are right, so the day goes on."""
