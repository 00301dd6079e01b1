# SPDX-License-Identifier: Apache-2.0
"""The elements of a BYTES tensor as sent over the wire: each is a 4-byte little-endian length and that many bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def walk_strings(data: memoryview) -> Iterator[tuple[int, int]]:
    """Iterate over the start and end offset of each element's bytes.

    The last ones may lie beyond the end of a truncated tensor.
    """
    at, end = 0, len(data)
    while at < end:
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        yield start, at


def incomplete_string(name: str, start: int, stop: int, end: int) -> str:
    """Return Triton's text for an input of `end` bytes whose element extends from `start` to `stop`, beyond the end."""
    return (
        f"incomplete string data for inference input '{name}', expecting string of length {stop - start} but only "
        f"{max(0, end - start)} bytes available"
    )


def pack_strings(elements: Iterable[bytes | str]) -> bytes:
    """Return all elements of a tensor in wire format; text is encoded as UTF-8."""
    parts: list[bytes] = []
    for element in elements:
        data = element.encode() if isinstance(element, str) else element
        parts += (len(data).to_bytes(4, "little"), data)
    return b"".join(parts)
