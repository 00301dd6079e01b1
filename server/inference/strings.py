# SPDX-License-Identifier: Apache-2.0
"""Elements of a BYTES tensor as they go over the wire: each a 4-byte little-endian length and that many bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def walk_strings(data: memoryview) -> Iterator[tuple[int, int]]:
    """Where each element's bytes begin and end. The last ones may lie beyond the tensor's end, where it breaks off."""
    at, end = 0, len(data)
    while at < end:
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        yield start, at


def incomplete_string(name: str, start: int, stop: int, end: int) -> str:
    """Triton's text for an input whose element lies from start to stop, and that ends before."""
    return (
        f"incomplete string data for inference input '{name}', expecting string of length {stop - start} but only "
        f"{max(0, end - start)} bytes available"
    )


def pack_strings(elements: Iterable[bytes | str]) -> bytes:
    """All elements of a tensor; text as UTF-8."""
    parts: list[bytes] = []
    for element in elements:
        data = element.encode() if isinstance(element, str) else element
        parts += (len(data).to_bytes(4, "little"), data)
    return b"".join(parts)
