# SPDX-License-Identifier: Apache-2.0
"""A compute unit as an IP driver of PYNQ: `overlay.facile_1.call(x, y, rows)`, as in PYNQ before 3.1."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import pynq
from pynq.overlay import RegisterIP, XrtArgument, _ip_drivers

from hypersonic.firmware.kernel.registers import ROW_IN_BYTES, ROW_OUT_BYTES
from hypersonic.firmware.kernel.vitis_xml import VLNV
from hypersonic.firmware.publish.manifest import FILE_NAME, WEIGHTS_NAME, Manifest
from hypersonic.host.compute_unit import BufferObject, ComputeUnit, Run
from hypersonic.host.driver import RunState
from hypersonic.host.errors import BufferObjectError, ComputeUnitTimeoutError, DeviceLostError, RunError
from hypersonic.host.pynq.buffer import Block, Buffer
from hypersonic.host.weights import WeightsFile, expected_bytes, find_weights, load_weights, read_weights

#: the argument of kernels that load weights; its default is weights.bin in the directory of the xclbin
_WEIGHTS = "w"
#: timeout of each call while wait() waits without a limit; the call returns earlier when the run ends
_ROUND_MS = 60_000


class Handle:
    """A run that was started. Its buffers remain allocated until the run has ended, even if nothing waits for it."""

    def __init__(self, kernel: Kernel, run: Run, buffers: tuple[Buffer, ...]) -> None:
        self._kernel, self._run, self._buffers = kernel, run, buffers
        self._state: RunState | None = None
        kernel.device.in_flight.add(self)
        for buffer in buffers:
            buffer.bo.runs += 1

    @property
    def done(self) -> bool:
        """True if the run has ended. Does not wait."""
        return self.poll()

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the run has ended; a second call returns at once.

        Raises ComputeUnitTimeoutError after timeout_ms (the run continues, and can be waited for again), RunError when the run
        failed, ComputeUnitOutOfServiceError, DeviceLostError.

        Args:
            timeout_ms: None waits without a limit.
        """
        unit = self._kernel.unit
        while not self.poll(_ROUND_MS if timeout_ms is None else timeout_ms):
            unit.require_service()
            if timeout_ms is not None:
                raise ComputeUnitTimeoutError(f"a run of {unit.name} did not complete within {timeout_ms} ms: wait() again")
        if self._state is not RunState.COMPLETED:
            raise RunError(f"a run of {unit.name} ended as {self._state and self._state.name}, expected COMPLETED")

    def poll(self, timeout_ms: int = 0) -> bool:
        """True if the run ends within timeout_ms. Raises DeviceLostError."""
        if self._state is None:
            with _service(self._kernel.unit):
                state = self._run.wait(timeout_ms)
            if state is not RunState.TIMEOUT:
                self._end(state)
        return self._state is not None

    def _end(self, state: RunState) -> None:
        self._state = state
        for buffer in self._buffers:
            buffer.bo.runs -= 1
        self._buffers = ()
        self._kernel.device.in_flight.discard(self)
        self._kernel.idle.append(self._run)


class Kernel(pynq.DefaultIP):  # type: ignore[misc] # pynq has no types
    """Driver of a compute unit: call, start, signature, args, and DefaultIP's register_map, read, write."""

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        self.name: str = description["fullpath"]
        self.unit: ComputeUnit = self.device.opened.compute_unit(self.name)
        self.idle: list[Run] = []
        ours = description["type"].startswith(f"{VLNV}:")
        self._row_bytes = _row_bytes(self.unit) if ours else {}
        registers = {name: entry for name, entry in description["registers"].items() if entry["id"] is not None}
        self._entries = dict(sorted(registers.items(), key=lambda item: item[1]["id"]))
        self._takes_weights = ours and _WEIGHTS in self._entries
        self._signature = _signature(self._entries, _WEIGHTS if self._takes_weights else "")
        self.args = {
            name: XrtArgument(name, entry["id"] + 1, entry["type"], entry.get("memory"))
            for name, entry in self._entries.items()
        }

    def call(self, *args: Any, **kwargs: Any) -> None:
        """Run once and wait. The arguments are those of `signature`. Raises the errors of start() and Handle.wait()."""
        self.start(*args, **kwargs).wait()

    def start(self, *args: Any, **kwargs: Any) -> Handle:
        """Start a run without waiting for it. Pointers take buffers of allocate, scalars numbers; no buffer is synchronised.

        Weights that are not given are loaded at the first run. Raises TypeError (arguments that do not fit `signature`),
        BufferObjectError (wrong bank, too small, freed, foreign), ValueError (a number that does not fit), WeightsError (no
        weights.bin beside the xclbin, or another one), DeviceError.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        values = {name: self._value(name, entry, given[name]) for name, entry in self._entries.items()}
        self._check_rows(values)
        buffers = tuple(value for value in given.values() if isinstance(value, Buffer))
        self.unit.require_service()
        run = self.idle.pop() if self.idle else self.unit.open_run()
        try:
            for name, value in values.items():
                run.set_arg(self._entries[name]["id"], value)
            with _service(self.unit):
                run.start()
        except Exception:
            self.idle.append(run)
            raise
        return Handle(self, run, buffers)

    @cached_property
    def _weights(self) -> BufferObject:
        """The buffer with weights.bin, which remains on the card until another xclbin is loaded."""
        loaded = self.device.loaded
        return load_weights(self.unit, _weights_beside(loaded.path, loaded.contents.uuid, self.unit))

    def _check_rows(self, values: dict[str, BufferObject | int]) -> None:
        """Raise BufferObjectError for buffers that are too small for the run: a kernel does not check their sizes."""
        rows = values.get("rows", 0)
        for name, row_bytes in self._row_bytes.items():
            buffer = values[name]
            assert isinstance(buffer, BufferObject)
            assert isinstance(rows, int)
            if rows * row_bytes > buffer.size_bytes:
                room = f"{buffer.size_bytes // row_bytes} rows of {row_bytes} bytes"
                raise BufferObjectError(f"argument {name} of {self.name} has room for {room}, the run is {rows} rows")
        weights = values.get(_WEIGHTS) if self._takes_weights else None
        if isinstance(weights, BufferObject) and weights.size_bytes < (needed := expected_bytes(self.unit)):
            raise BufferObjectError(f"argument w of {self.name} is {weights.size_bytes} bytes, expected {needed} of weights")

    def _value(self, name: str, entry: dict[str, Any], value: Any) -> BufferObject | int:
        if not entry["pointer"]:
            return _word(f"argument {name} of {self.name}", entry, value)
        if value is None and self._takes_weights and name == _WEIGHTS:
            return self._weights
        if not isinstance(value, Buffer):
            raise TypeError(f"argument {name} of {self.name} is a {type(value).__name__}, expected a buffer of pynq.allocate")
        block: Block = value.block()
        if value.device is not self.device:
            raise BufferObjectError(f"argument {name} of {self.name} is on {value.device.tag}, expected {self.device.tag}")
        if value.offset:
            raise BufferObjectError(f"argument {name} of {self.name} is a view from byte {value.offset}: pass a buffer's start")
        # XRT 2.13 would start such a run
        if entry["banks"] and block.bank not in entry["banks"]:
            wanted = entry["banks"][0]
            raise BufferObjectError(
                f"argument {name} of {self.name} must be in {' or '.join(entry['banks'])}, the buffer is in {block.bank}: "
                f"allocate(..., target=overlay.{_attribute(wanted)})"
            )
        return block.memory


def _weights_beside(xclbin: Path, uuid: str, unit: ComputeUnit) -> WeightsFile:
    """The file weights.bin next to the xclbin with that uuid, checked with manifest.json if that exists.

    Raises WeightsError when it does not have the size that the unit reads or is not the one that the manifest describes,
    ManifestError.
    """
    path = xclbin.with_name(WEIGHTS_NAME)
    if (manifest := xclbin.with_name(FILE_NAME)).is_file():
        described = Manifest.read(manifest)
        if described.uuid == uuid and (file := find_weights(described, path)):
            return file
    return read_weights(path, expected_bytes(unit), f"{unit.name} reads its weights from it")


def _signature(entries: dict[str, Any], optional: str) -> Signature:
    """The signature with the kernel's arguments in their order.

    Args:
        optional: the argument that may be left out.
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    default = {optional: None}
    return Signature([
        Parameter(name, kind, annotation=entry["type"], default=default.get(name, Parameter.empty))
        for name, entry in entries.items()
    ])  # fmt: skip


@contextmanager
def _service(unit: ComputeUnit) -> Iterator[None]:
    """Take the unit out of service when its card does not respond."""
    try:
        yield
    except DeviceLostError:
        unit.take_out_of_service()
        raise


def _row_bytes(unit: ComputeUnit) -> dict[str, int]:
    """Argument -> bytes of a row, from the kernel's registers."""
    told = {"x": unit.read_register(ROW_IN_BYTES), "y": unit.read_register(ROW_OUT_BYTES)}
    return {name: size for name, size in told.items() if size}


def _attribute(tag: str) -> str:
    """The overlay's attribute for a bank, as PYNQ derives it from the bank's tag."""
    return "".join(letter for letter in tag if letter.isalnum() or letter == "_")


def _word(what: str, entry: dict[str, Any], value: Any) -> int:
    """The 32 bits of a scalar argument."""
    kind, size = entry["type"], entry["host_size"]
    if size > 4:
        raise ValueError(f"{what} is a {kind} of {size} bytes, only scalars of 4 bytes can be passed")
    code = "<f" if kind == "float" else "<I" if kind.startswith("u") else "<i"
    try:
        return int.from_bytes(struct.pack(code, value), "little")
    except struct.error as error:
        raise ValueError(f"{what} is {value!r}, expected a {kind} of {size} bytes") from error


def bind(vlnv: str) -> None:
    """Register Kernel as PYNQ's driver for this kind of kernel, unless the program has registered another one."""
    if vlnv not in _ip_drivers:
        RegisterIP(Kernel.__name__, (Kernel,), {"bindto": [vlnv]})
