# SPDX-License-Identifier: Apache-2.0
"""An rf core as hardware: stages (instances of hls/rtl/rf/rf_*.sv), the streams between them, and their memory files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.rf.needs import each
from hypersonic.hls.weight_stream import WEIGHT_BITS

Value = int | str


@dataclass(frozen=True)
class Stream:
    """A tensor as a stream: `lanes` elements per beat, `beats` beats per row."""

    name: str
    precision: FixedPoint
    lanes: int
    beats: int

    @property
    def width(self) -> int:
        """Width of tdata in bits."""
        return self.lanes * self.precision.width


@dataclass(frozen=True, eq=False)
class Memory:
    """A memory filled by $readmemh.

    Attributes:
        file: its name.
        words: (depth, fields) integers of any size; field 0 is in the low bits of a word.
        widths: bits of the fields, either one for all fields or a sequence that repeats.
    """

    file: str
    words: NDArray[Any]
    widths: tuple[int, ...]

    @property
    def width(self) -> int:
        """Width of a word in bits."""
        fields: int = self.words.shape[1]
        return sum(self.widths) * fields // len(self.widths)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of words, and width of a word in bits."""
        return len(self.words), self.width

    @property
    def bits(self) -> int:
        """Size of the memory in bits."""
        return self.width * len(self.words)

    def text(self) -> str:
        """Return the content of the file: one hexadecimal word per line."""
        return "\n".join(_lines(self.words, self.widths)) + "\n"

    def bits_of(self, words: NDArray[Any]) -> NDArray[np.uint8]:
        """Return some of its words (n, fields) as bits (n, width), each 0 or 1, lowest first."""
        each = [self.widths[i % len(self.widths)] for i in range(words.shape[1])]
        if max(each) <= 62 and words.dtype != object:
            return _bits(words, each, sum(each))
        size = -(-sum(each) // 8)
        packed = b"".join(_word(word, each).to_bytes(size, "little") for word in words)
        bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8).reshape(-1, size), axis=1, bitorder="little")
        return bits[:, : sum(each)]


#: words that are converted to bits at a time, which bounds memory: a network has millions of weights
_WORDS_AT_ONCE = 2048


def _lines(words: NDArray[Any], widths: tuple[int, ...]) -> list[str]:
    fields = words.shape[1]
    each = [widths[i % len(widths)] for i in range(fields)]
    if max(each) <= 62 and words.dtype != object:
        chunks = (words[at : at + _WORDS_AT_ONCE] for at in range(0, len(words), _WORDS_AT_ONCE))
        return [line for chunk in chunks for line in _packed(chunk, each)]
    digits = -(-sum(each) // 4)
    return [f"{_word(word, each):0{digits}x}" for word in words]


def _word(word: NDArray[Any], each: list[int]) -> int:
    value = at = 0
    for number, width in zip(word, each, strict=True):
        value |= (int(number) & ((1 << width) - 1)) << at
        at += width
    return value


def _packed(words: NDArray[np.int64], each: list[int]) -> list[str]:
    """Return the lines of the words, by numpy: faster than _word, for fields of up to 62 bits."""
    digits = -(-sum(each) // 4)
    bits = _bits(words, each, digits * 4)
    nibbles = bits.reshape(len(words), digits, 4) @ np.array([1, 2, 4, 8], dtype=np.uint8)
    letters = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[nibbles[:, ::-1]]
    return [row.tobytes().decode() for row in np.ascontiguousarray(letters)]


def _bits(words: NDArray[np.int64], each: list[int], total: int) -> NDArray[np.uint8]:
    bits = np.zeros((len(words), total), dtype=np.uint8)
    at = 0
    for i, width in enumerate(each):
        bits[:, at : at + width] = (words[:, i, None] >> np.arange(width)) & 1
        at += width
    return bits


@dataclass(frozen=True, eq=False)
class Feed:
    """Weights that a stage receives at run time on its port s_axis_w.

    Attributes:
        words: in the layout of rf_mac's memory, whose file is not written.
        repeats: True if they are read from the card's memory for every vector, False if they are loaded once after a reset.
            then ultra says whether into UltraRAM.
    """

    words: Memory
    repeats: bool
    ultra: bool = True


@dataclass(frozen=True, eq=False)
class Timing:
    """When a stage's output beats are available, for one row without stalls, and how often rows can follow.

    Attributes:
        needs: for each input stream, an array with the index of the last input beat that each output beat waits for; -1 for
            none.
        latency: clocks from the edge that accepts that input beat to the edge at which the output beat can be accepted.
        gap: minimum clocks between output beats.
        ii: clocks for which a row occupies the stage.
    """

    needs: tuple[NDArray[np.int64], ...]
    latency: int
    gap: int
    ii: int

    def departures(self, arrivals: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
        """Return the clock edges at which the output beats can be accepted.

        Args:
            arrivals: for each input stream, the edges (beats,) at which its beats are accepted.
        """
        waits = [np.where(need < 0, 0, arrival[need]) for arrival, need in zip(arrivals, self.needs, strict=True)]
        ready = np.max(waits, axis=0) + self.latency
        return spaced(ready, np.arange(len(ready), dtype=np.int64) * self.gap)


def spaced(ready: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the clocks at which beats leave that are ready at `ready` (beats,), j at least steps[j] - steps[i] after i."""
    departures: NDArray[np.int64] = np.maximum.accumulate(ready - steps) + steps
    return departures


def one_to_one(beats: int, latency: int, streams: int = 1) -> Timing:
    """Return the timing of a stage that turns one beat of each input stream into one output beat."""
    return Timing((each(beats),) * streams, latency, 1, beats)


@dataclass(frozen=True, eq=False)
class Stage:
    """An instance of an RTL module.

    Attributes:
        layer: name of the layer that it computes.
        memories: filled from files.
        multipliers: in hardware.
        multiplications: per row.
        ram_bits: of buffers.
        feed: weights that it receives at run time.
        loaded: its constants that are loaded with them.
        die: its die in the plan of a core over several (rf/dies.py), counted from the one with the kernel's shell.
    """

    name: str
    module: str
    layer: str
    parameters: Mapping[str, Value]
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    timing: Timing
    memories: tuple[Memory, ...] = ()
    multipliers: int = 0
    multiplications: int = 0
    ram_bits: int = 0
    feed: Feed | None = None
    loaded: Memory | None = None
    die: int = 0


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A whole core.

    Attributes:
        inputs, outputs: the streams at its ports, one per tensor, in the model's order.
        notes: for the report.
    """

    name: str
    stages: tuple[Stage, ...]
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    notes: tuple[str, ...] = field(default=())


# ---------------------------------------------------------------- streams at the ports
def is_whole(streams: tuple[Stream, ...]) -> bool:
    """Return whether a row is a single beat that holds all these streams side by side."""
    return all(stream.beats == 1 for stream in streams)


def port_width(streams: tuple[Stream, ...]) -> int:
    """Return the width of the port's tdata in bits."""
    widths = [stream.width for stream in streams]
    return sum(widths) if is_whole(streams) else max(widths)


def port_beats(streams: tuple[Stream, ...]) -> int:
    """Return the number of beats per row at the port."""
    return 1 if is_whole(streams) else sum(stream.beats for stream in streams)


# ---------------------------------------------------------------- weights at run time
#: minimum beats of a stream that repeats: far more than are in flight at once
_LEAST_BEATS = 1024


def clocks_a_word(width: int) -> int:
    """Return the beats, and thus the minimum clocks, for one word of `width` bits."""
    return ceil(width / WEIGHT_BITS)


def words_a_beat(feed: Feed) -> int:
    """Return the number of words that share a beat; 1 if each word takes whole beats."""
    most = WEIGHT_BITS // feed.words.width
    if not feed.repeats or most < 2:
        return 1
    return next(count for count in range(most, 0, -1) if len(feed.words.words) % count == 0)


def feed_beats(feed: Feed) -> int:
    """Return the beats for all words once."""
    return len(feed.words.words) // words_a_beat(feed) * clocks_a_word(feed.words.width)


def copies(feed: Feed) -> int:
    """Return how many times the words are repeated in the weights' file."""
    return ceil(_LEAST_BEATS / feed_beats(feed)) if feed.repeats else 1


def row_beats(stage: Stage) -> int:
    """Return the beats that the stage reads from the card's memory per row."""
    if not stage.feed or not stage.feed.repeats:
        return 0
    vectors = stage.timing.ii // (len(stage.feed.words.words) * clocks_a_word(stage.feed.words.width))
    return vectors * feed_beats(stage.feed)
