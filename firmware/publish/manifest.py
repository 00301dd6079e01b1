# SPDX-License-Identifier: Apache-2.0
"""The file manifest.json next to a model.xclbin: the model that the kernel computes, which the container does not describe.

A kernel that loads its weights at run time reads them from a third file, weights.bin, in beats of 64 bytes as the weight
streams of hls/core.py count them. The manifest gives its size and hash.

A manifest is read as hostile input: its size is bounded, and the type and range of every field are checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import ManifestError, ManifestMismatchError, XclbinError
from hypersonic.firmware.platform import PLATFORMS
from hypersonic.firmware.publish.content import Content, digest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.row import MAX_TENSORS, Row

FILE_NAME = "manifest.json"
#: the file that the host copies into the memory of the kernel's argument w; it exists only where weights_bytes is not 0
WEIGHTS_NAME = "weights.bin"
SCHEMA = 4
#: the previous schema, which has no kernel_sha256
_WITHOUT_DIGEST = 3
MAX_BYTES = 1 << 20
#: the largest row in memory; far above the limit of a kernel, because sw_emu has none
MAX_ROW_BYTES = 1 << 30
#: the largest weights.bin: more than the memory of any card
MAX_WEIGHTS_BYTES = 1 << 40

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(frozen=True)
class Manifest:
    """The description of one published version of a model."""

    model: str
    kernel: str
    target: Target
    platform: str  # a name of PLATFORMS
    core: str  # a CoreKind of hls/core.py
    uuid: str  # of the xclbin, 32 hex digits
    sha256: str  # of the file model.xclbin
    inputs: Row
    outputs: Row
    compute_units: tuple[str, ...]
    ii: int  # clocks between two rows in the core
    latency_cycles: int  # clocks of one row through the core
    max_batch_size: int  # rows in one request
    weights_bytes: int = 0  # size of weights.bin; 0 when the kernel reads no weights from memory
    weights_sha256: str = ""  # of weights.bin; empty without one
    kernel_sha256: str = ""  # the kernel's digest (kernel/files.py), 64 hex digits; empty when the xclbin does not name it
    tools: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, xclbin: bytes, *, model: str, platform: str, core: str, inputs: Row, outputs: Row, ii: int,
        latency_cycles: int, max_batch_size: int, tools: dict[str, str] | None = None, report: dict[str, Any] | None = None,
        weights: Content | None = None, kernel: str = "",
    ) -> Manifest:  # fmt: skip
        """The manifest of a model in these xclbin bytes, and of weights.bin where the kernel needs one.

        Args:
            kernel: the model's kernel among those of the xclbin; empty for the only one. Its digest and its compute units, the
                target and the uuid are read from the xclbin.
            ii, latency_cycles: in clocks of the core.

        Raises:
            XclbinError: When the bytes are not an xclbin or lack the kernel.
            OSError: When the weights cannot be read.
        """
        parsed = Xclbin.parse(xclbin)
        name = _kernel_in(parsed, kernel)
        weights_bytes, weights_sha256 = digest(weights) if weights is not None else (0, "")
        return cls(
            model=model, kernel=name, target=parsed.target, platform=platform, core=core, uuid=parsed.uuid,
            sha256=hashlib.sha256(xclbin).hexdigest(), inputs=inputs, outputs=outputs,
            compute_units=tuple(unit.name for unit in parsed.units_of(name)), ii=ii, latency_cycles=latency_cycles,
            max_batch_size=max_batch_size, weights_bytes=weights_bytes, weights_sha256=weights_sha256,
            kernel_sha256=parsed.kernel_digests.get(name, ""), tools=tools or {}, report=report or {},
        )  # fmt: skip

    def to_json(self) -> str:
        """The text of manifest.json."""
        fields = {
            "schema": SCHEMA, "model": self.model, "kernel": self.kernel, "kernel_sha256": self.kernel_sha256,
            "target": str(self.target),
            "platform": self.platform, "core": self.core, "uuid": self.uuid, "sha256": self.sha256,
            "inputs": self.inputs.to_json(), "outputs": self.outputs.to_json(), "compute_units": list(self.compute_units),
            "ii": self.ii, "latency_cycles": self.latency_cycles, "max_batch_size": self.max_batch_size,
            "weights_bytes": self.weights_bytes, "weights_sha256": self.weights_sha256,
            "tools": self.tools, "report": self.report,
        }  # fmt: skip
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Manifest:
        """The manifest in a text. Raises ManifestError, which names the first field that is missing or not valid."""
        fields = _load(text)
        if fields.get("schema") == _WITHOUT_DIGEST:
            fields = {**fields, "schema": SCHEMA, "kernel_sha256": ""}
        if fields.get("schema") != SCHEMA:
            raise ManifestError(
                f"manifest: schema is {_brief(fields.get('schema'))}, expected {SCHEMA}; publish the model again"
            )
        weights_bytes, weights_sha256 = _weights(fields)
        return cls(
            model=_name(fields, "model"), kernel=_name(fields, "kernel"),
            target=Target(_choice(fields, "target", list(Target))),
            platform=_choice(fields, "platform", list(PLATFORMS)), core=_name(fields, "core"),
            uuid=_hex(fields, "uuid", 32), sha256=_hex(fields, "sha256", 64),
            inputs=_row(fields, "inputs"), outputs=_row(fields, "outputs"), compute_units=_names(fields, "compute_units"),
            ii=_count(fields, "ii"), latency_cycles=_count(fields, "latency_cycles"),
            max_batch_size=_count(fields, "max_batch_size"), weights_bytes=weights_bytes, weights_sha256=weights_sha256,
            kernel_sha256=_hex_or_empty(fields, "kernel_sha256", 64),
            tools={str(key): str(value) for key, value in _object(fields, "tools").items()}, report=_object(fields, "report"),
        )  # fmt: skip

    @property
    def accepted(self) -> str:
        """How far the answers are from the trained model's, if the build accepted a model that is far; otherwise ""."""
        gate = self.report.get("gate")
        said = gate.get("accepted") if isinstance(gate, dict) else None
        return "; ".join(map(str, said)) if isinstance(said, list) else ""

    def runs_in(self, xclbin: Xclbin) -> bool:
        """True if an xclbin has the model's kernel: it is the manifest's, or another one for the same target and platform with
        a kernel of the same name and digest."""
        digest = xclbin.kernel_digests.get(self.kernel, "")
        same_card = (xclbin.target, xclbin.vbnv) == (self.target, PLATFORMS[self.platform].vbnv)
        return xclbin.uuid == self.uuid or (same_card and digest != "" and digest == self.kernel_sha256)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file. Raises ManifestError, which names the file and the field; OSError when it cannot be read."""
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        try:
            return cls.parse(text)
        except ManifestError as error:
            raise ManifestError(f"{path}: {error}") from error


def check(manifest: Manifest, xclbin: bytes) -> Xclbin:
    """The parsed xclbin, after a check that the manifest describes exactly these bytes. check_weights checks weights.bin.

    Raises ManifestMismatchError, which names the field, the manifest's value and the xclbin's; XclbinError when the bytes are
    not an xclbin.
    """
    return check_described(manifest, Xclbin.parse(xclbin), hashlib.sha256(xclbin).hexdigest())


def check_described(manifest: Manifest, parsed: Xclbin, sha256: str) -> Xclbin:
    """As check(), for an xclbin that was parsed from a file with that hash."""
    names = ", ".join(repr(kernel.name) for kernel in parsed.kernels) or "none"
    if (kernel := parsed.kernel(manifest.kernel)) is None:
        raise _mismatch(manifest, f"kernel is {manifest.kernel!r}, but the xclbin has {names}")
    takes_weights = any(argument.name == "w" for argument in kernel.arguments)
    facts = (
        ("target", str(manifest.target), str(parsed.target)),
        ("platform", PLATFORMS[manifest.platform].vbnv, parsed.vbnv),
        ("compute_units", list(manifest.compute_units), [unit.name for unit in parsed.units_of(kernel.name)]),
        ("kernel_sha256", manifest.kernel_sha256, parsed.kernel_digests.get(kernel.name, "")),
        ("uuid", manifest.uuid, parsed.uuid),
        ("sha256", manifest.sha256, sha256),
    )
    for name, described, actual in facts:
        if described != actual:
            raise _mismatch(manifest, f"{name} is {described!r}, but the xclbin has {actual!r}")
    if takes_weights != bool(manifest.weights_bytes):
        reads = "reads weights (its argument w)" if takes_weights else "reads none (it has no argument w)"
        raise _mismatch(manifest, f"weights_bytes is {manifest.weights_bytes}, but the xclbin's kernel {reads}")
    return parsed


def check_weights(manifest: Manifest, weights: Content) -> None:
    """Raises ManifestMismatchError unless these are the weights that the manifest describes, OSError if they cannot be read."""
    size_bytes, sha256 = digest(weights)
    for name, described, actual in (
        ("weights_bytes", manifest.weights_bytes, size_bytes), ("weights_sha256", manifest.weights_sha256, sha256),
    ):  # fmt: skip
        if described != actual:
            raise _mismatch(manifest, f"{name} is {described!r}, but {WEIGHTS_NAME} has {actual!r}")


def _kernel_in(xclbin: Xclbin, name: str) -> str:
    """The name of the model's kernel. Raises XclbinError when the xclbin lacks it, or has several and the name is empty."""
    names = [kernel.name for kernel in xclbin.kernels]
    if (not name and len(names) != 1) or (name and name not in names):
        raise XclbinError(
            f"the kernel is {name!r}, and the xclbin has {', '.join(map(repr, names)) or 'none'}: expected one of these"
        )
    return name or names[0]


def _mismatch(manifest: Manifest, what: str) -> ManifestMismatchError:
    return ManifestMismatchError(
        f"manifest of model {manifest.model!r}: {what}; the two files are not from the same build: publish the model again"
    )


def _load(text: str | bytes) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise ManifestError(f"manifest is more than {MAX_BYTES} bytes")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ManifestError(f"manifest is a JSON {type(fields).__name__}, expected an object")
    return fields


def _field(fields: dict[str, Any], name: str, type_: type, what: str) -> Any:
    value = fields.get(name)
    if not isinstance(value, type_) or isinstance(value, bool):
        raise ManifestError(f"manifest: {name} is {_brief(value) if name in fields else 'missing'}, expected {what}")
    return value


def _brief(value: object) -> str:
    return repr(value)[:80]


def _text(fields: dict[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    value: str = _field(fields, name, str, what)
    if not pattern.fullmatch(value):
        raise ManifestError(f"manifest: {name} is {_brief(value)}, expected {what}")
    return value


def _name(fields: dict[str, Any], name: str) -> str:
    return _text(fields, name, _NAME, "a name")


def _hex(fields: dict[str, Any], name: str, digits: int) -> str:
    value = _text(fields, name, _HEX, f"{digits} hexadecimal digits")
    if len(value) != digits:
        raise ManifestError(f"manifest: {name} has {len(value)} digits, expected {digits} hexadecimal digits")
    return value


def _hex_or_empty(fields: dict[str, Any], name: str, digits: int) -> str:
    return _hex(fields, name, digits) if _field(fields, name, str, f"{digits} hexadecimal digits, or an empty text") else ""


def _choice(fields: dict[str, Any], name: str, choices: list[str]) -> str:
    value: str = _field(fields, name, str, f"one of {', '.join(choices)}")
    if value not in choices:
        raise ManifestError(f"manifest: {name} is {_brief(value)}, expected one of {', '.join(choices)}")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value: int = _field(fields, name, int, "a positive integer")
    if not 1 <= value < 1 << 31:
        raise ManifestError(f"manifest: {name} is {_brief(value)}, expected a positive integer")
    return value


def _weights(fields: dict[str, Any]) -> tuple[int, str]:
    """The fields weights_bytes and weights_sha256: 0 and empty where the kernel reads no weights."""
    what = f"0, or whole beats of 64 bytes up to {MAX_WEIGHTS_BYTES}"
    size_bytes: int = _field(fields, "weights_bytes", int, what)
    if not 0 <= size_bytes <= MAX_WEIGHTS_BYTES or size_bytes % 64:
        raise ManifestError(f"manifest: weights_bytes is {_brief(size_bytes)}, expected {what}")
    if size_bytes:
        return size_bytes, _hex(fields, "weights_sha256", 64)
    if _field(fields, "weights_sha256", str, "a text"):
        got = _brief(fields["weights_sha256"])
        raise ManifestError(f"manifest: weights_sha256 is {got}, expected an empty text with 0 weights_bytes")
    return 0, ""


def _names(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    values = _field(fields, name, list, "a list of names")
    if not values or len(values) > 1024 or not all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
        raise ManifestError(f"manifest: {name} is {_brief(values)}, expected a list of names")
    return tuple(values)


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value: dict[str, Any] = _field({name: {}} | fields, name, dict, "an object")
    return value


def _row(fields: dict[str, Any], name: str) -> Row:
    values = _field(fields, name, list, "a list of tensors")
    if not 1 <= len(values) <= MAX_TENSORS:
        raise ManifestError(f"manifest: {name} has {len(values)} tensors, expected 1 to {MAX_TENSORS}")
    for index in range(len(values)):
        _field({f"{name}[{index}]": values[index]}, f"{name}[{index}]", dict, "a tensor")
    try:
        row = Row.from_json(values)
    except KeyError as error:
        raise ManifestError(f"manifest: a tensor of {name} has no field {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ManifestError(f"manifest: {name} is not a valid row: {error}") from error
    if name == "outputs" and any(tensor.packing for tensor in row.tensors):
        raise ManifestError("manifest: outputs has a packed row, expected numbers: only inputs are packed")
    if row.row_bytes > MAX_ROW_BYTES:
        raise ManifestError(f"manifest: {name} is a row of {row.row_bytes} bytes, expected at most {MAX_ROW_BYTES}")
    return row
