# SPDX-License-Identifier: Apache-2.0
"""Damage to serialized protobuf, of the kinds that parsers disagree about: made with a seeded generator, so repeatable."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tritonclient.grpc.service_pb2 import ModelInferRequest

from hypersonic.server.wire.grpc.messages import varint

_STRINGS = ("", "m", "model", "1", "FP32", "BYTES", "x", "\u00fc", "\U0001f600", "n" * 130)
_SIZES = (0, 1, 2, 127, 128, 129, 300)


def message(random: Random) -> bytes:
    """A valid ModelInferRequest with anything in it, often several of each."""
    request = ModelInferRequest(model_name=_text(random), model_version=_text(random), id=_text(random))
    for _ in range(random.randrange(3)):
        _parameter(random, request.parameters)
    for _ in range(random.randrange(3)):
        tensor = request.inputs.add(name=_text(random), datatype=_text(random))
        tensor.shape.extend(random.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63))) for _ in range(random.randrange(4)))
        if random.random() < 0.3:
            _parameter(random, tensor.parameters)
        if random.random() < 0.5:
            _contents(random, tensor.contents)
    for _ in range(random.randrange(3)):
        output = request.outputs.add(name=_text(random))
        if random.random() < 0.3:
            _parameter(random, output.parameters)
    request.raw_input_contents.extend(random.randbytes(random.choice(_SIZES)) for _ in range(random.randrange(4)))
    return request.SerializeToString()


def _text(random: Random) -> str:
    return random.choice(_STRINGS)


def _parameter(random: Random, parameters: Any) -> None:
    parameter = parameters[_text(random)]
    field, value = random.choice(
        (("bool_param", True), ("int64_param", -1), ("string_param", _text(random)), ("double_param", float("nan")),
         ("uint64_param", 2**64 - 1))
    )  # fmt: skip
    setattr(parameter, field, value)


def _contents(random: Random, contents: object) -> None:
    numbers = [random.choice((0, 1, 127, 128, 2**31 - 1)) for _ in range(random.randrange(5))]
    field = random.choice(
        ("bool_contents", "int_contents", "int64_contents", "uint_contents", "uint64_contents", "fp32_contents",
         "fp64_contents", "bytes_contents")
    )  # fmt: skip
    values = [random.randbytes(n % 7) for n in numbers] if field == "bytes_contents" else numbers
    getattr(contents, field).extend([bool(n) for n in numbers] if field == "bool_contents" else values)


def records(wire: bytes) -> list[tuple[int, int, int]]:
    """(start, first byte of the body, end) of each length-delimited field, as long as the message is well-formed."""
    fields, at = [], 0
    while at < len(wire):
        tag, body = _read_varint(wire, at)
        if tag & 7 != 2:
            break
        size, body = _read_varint(wire, body)
        if body + size > len(wire):
            break
        fields.append((at, body, body + size))
        at = body + size
    return fields


def _read_varint(wire: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(wire):
        value |= (wire[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if wire[at - 1] < 0x80:
            break
    return value, at


def _overlong(value: int, extra: int) -> bytes:
    """A varint of more bytes than it needs."""
    short = bytearray(varint(value))
    short[-1] |= 0x80
    return bytes(short) + b"\x80" * (extra - 1) + b"\x00"


def _number(random: Random) -> int:
    return random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 100, 2**28, 2**29 - 1, 2**29))


def _unknown(random: Random) -> bytes:
    """A field of any number and wire type, nested groups among them."""
    kind = random.randrange(8)
    tag = varint(_number(random) << 3 | kind)
    if kind == 0:
        return tag + random.choice(
            (b"\x00", b"\x7f", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 10, b"\x80" * 9 + b"\x00")
        )
    if kind == 2:
        body = random.randbytes(random.choice(_SIZES[:3]))
        return tag + varint(len(body)) + body
    if kind == 3:
        inner = b"".join(_unknown(random) for _ in range(random.randrange(2)))
        closing = _read_varint(tag, 0)[0] + 1 if random.random() < 0.8 else _number(random) << 3 | 4
        return tag + inner + varint(closing)
    return tag + random.randbytes({1: 8, 5: 4}.get(kind, 0))


def truncate(wire: bytes, random: Random) -> bytes:
    return wire[: random.randrange(len(wire) + 1)]


def flip(wire: bytes, random: Random) -> bytes:
    at = random.randrange(len(wire))
    return wire[:at] + bytes((wire[at] ^ 1 << random.randrange(8),)) + wire[at + 1 :]


def splice(wire: bytes, random: Random) -> bytes:
    """A piece of another message in the middle of this one."""
    other = message(random)
    start = random.randrange(len(other) + 1)
    piece = other[start : random.randrange(start, len(other) + 1)]
    at = random.randrange(len(wire) + 1)
    return wire[:at] + piece + wire[at:]


def duplicate(wire: bytes, random: Random) -> bytes:
    """A whole field once more, somewhere between fields."""
    fields = records(wire)
    if not fields:
        return wire
    start, _, end = random.choice(fields)
    at = random.choice((0, *(field[2] for field in fields)))
    return wire[:at] + wire[start:end] + wire[at:]


def lengthen(wire: bytes, random: Random) -> bytes:
    """A tag or a length with bytes it does not need."""
    fields = records(wire)
    if not fields:
        return wire
    start, body, end = random.choice(fields)
    tag, at = _read_varint(wire, start)
    extra = random.randrange(1, 10)
    head = (
        _overlong(tag, extra) + varint(end - body) if random.random() < 0.5 else wire[start:at] + _overlong(end - body, extra)
    )
    return wire[:start] + head + wire[body:]


def misstate(wire: bytes, random: Random) -> bytes:
    """A length that is not that of the body: a little off, or beyond the message, 2 GiB or 4 GiB."""
    fields = records(wire)
    if not fields:
        return wire
    start, body, end = random.choice(fields)
    _, at = _read_varint(wire, start)
    size = random.choice(
        (max(0, end - body + random.randrange(-3, 4)), len(wire), 2**31 - 1, 2**31, 2**32, 2**32 + end - body, 2**63)
    )
    return wire[:at] + varint(size) + wire[body:]


def retag(wire: bytes, random: Random) -> bytes:
    """Another field number or wire type for a body that stays."""
    fields = records(wire)
    if not fields:
        return wire
    start, _, _ = random.choice(fields)
    _, at = _read_varint(wire, start)
    return wire[:start] + varint(_number(random) << 3 | random.choice((2, 2, 2, 0, 1, 3, 4, 5, 6, 7))) + wire[at:]


def insert_unknown(wire: bytes, random: Random) -> bytes:
    at = random.choice((0, len(wire), *(field[2] for field in records(wire))))
    return wire[:at] + _unknown(random) + wire[at:]


def group(wire: bytes, random: Random) -> bytes:
    """A field, or everything, inside a group, closed as it should be or not."""
    fields = records(wire)
    start, _, end = random.choice(fields) if fields and random.random() < 0.7 else (0, 0, len(wire))
    number = _number(random)
    closing = random.choice((varint(number << 3 | 4),) * 3 + (b"", varint(9 << 3 | 4)))
    return wire[:start] + varint(number << 3 | 3) + wire[start:end] + closing + wire[end:]


def bury(wire: bytes, random: Random) -> bytes:
    """Groups within groups: around the depth at which the library gives up."""
    depth = random.choice((2, 98, 99, 100, 101, 102, 300))
    return wire + b"\x83\x01" * depth + b"\x84\x01" * random.choice((depth, depth, depth - 1))


def spoil_text(wire: bytes, random: Random) -> bytes:
    """Bytes that are not UTF-8 where text may be: lone continuations, surrogates, overlong forms."""
    fields = records(wire)
    if not fields:
        return wire
    start, body, end = random.choice(fields)
    bad = random.choice((b"\xff", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x00"))
    _, at = _read_varint(wire, start)
    content = wire[body:end] + bad
    return wire[:at] + varint(len(content)) + content + wire[end:]


def nested(wire: bytes, random: Random) -> bytes:
    """Damage inside a field, whose length is corrected afterwards."""
    fields = [field for field in records(wire) if field[2] - field[1] > 1]
    if not fields:
        return wire
    start, body, end = random.choice(fields)
    _, at = _read_varint(wire, start)
    inner = random.choice(MUTATIONS)(wire[body:end], random)
    return wire[:at] + varint(len(inner)) + inner + wire[end:]


Mutation = Callable[[bytes, Random], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    truncate, flip, splice, duplicate, lengthen, misstate, retag, insert_unknown, group, bury, spoil_text, nested, nested,
)  # fmt: skip


def damaged(random: Random) -> bytes:
    """A message with one to four of these done to it; sometimes with none."""
    wire = message(random)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        if wire:
            wire = random.choice(MUTATIONS)(wire, random)
    return wire
