# SPDX-License-Identifier: Apache-2.0
"""The beats of an image that rf_window needs for each window, and how many lines of memory keep up."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.layers import Tensor, Window
from hypersonic.hls.rf.needs import KEPT, Beats, shared

#: rows the interval is measured over
_ROWS = 6


def window_shape(tensor: Tensor, seen: Window) -> tuple[int, int]:
    """Output height and width."""
    height, width, _ = tensor.image
    return (
        (height + seen.pad_top + seen.pad_bottom - seen.kernel[0]) // seen.stride[0] + 1,
        (width + seen.pad_left + seen.pad_right - seen.kernel[1]) // seen.stride[1] + 1,
    )


def window_needs(tensor: Tensor, seen: Window, beats_a_pixel: int) -> Beats:
    """For each output beat (oy, ox, cb, kw), the last input beat that has to be there: of its newest line, or that line's first
    beat where the column is padding before the image, and its last where it is padding behind."""
    return _window_needs(tensor.image[:2], window_shape(tensor, seen), seen, beats_a_pixel)


@lru_cache(KEPT)
def _window_needs(image: tuple[int, int], out: tuple[int, int], seen: Window, beats_a_pixel: int) -> Beats:
    (height, width), (out_height, out_width) = image, out
    rows = np.clip(np.arange(out_height) * seen.stride[0] - seen.pad_top + seen.kernel[0] - 1, 0, height - 1)
    columns = np.arange(out_width)[:, None] * seen.stride[1] - seen.pad_left + np.arange(seen.kernel[1])
    places = columns[:, None, :] * beats_a_pixel + np.arange(beats_a_pixel)[None, :, None]
    line = width * beats_a_pixel
    beats = rows[:, None, None, None] * line + np.clip(places, 0, line - 1)[None]
    return shared(np.maximum.accumulate(beats.reshape(-1)).astype(np.int64))


def window_order(tensor: Tensor, seen: Window, lanes: int) -> NDArray[np.int64]:
    """Weight rows (kernel row, kernel column, channel) in the order of rf_window's beats: (cb, kw) beats of (kh, lane)."""
    rows, columns = seen.kernel
    index = np.arange(rows * columns * tensor.channels).reshape(rows, columns, tensor.channels // lanes, lanes)
    return index.transpose(2, 1, 0, 3).reshape(-1)


def fewest_lines(tensor: Tensor, seen: Window, lanes: int, interval: int) -> tuple[int, int]:
    """Lines of memory, and the clocks from row to row with them: the fewest that reach `interval`, or the best there is."""
    least, height = seen.kernel[0] + seen.stride[0], tensor.image[0]
    best = max(interval, least_interval(tensor, seen, lanes))
    pace = max(1.0, interval / (height * tensor.image[1] * (tensor.channels // lanes)))
    tried = [(least, window_interval(tensor, seen, lanes, least, pace))]
    while tried[-1][1] > best and tried[-1][0] < 2 * height + least:
        lines = tried[-1][0] + 1
        tried.append((lines, window_interval(tensor, seen, lanes, lines, pace)))
    lines, clocks = min(tried, key=lambda one: (one[1], one[0]))
    # a source slower than the window is not the window's own interval
    return lines, clocks if clocks > best else window_interval(tensor, seen, lanes, lines)


def enough_lines(tensor: Tensor, seen: Window, lanes: int) -> tuple[int, int]:
    """Lines that reach the least interval, and that interval; fewest_lines finds out whether fewer do."""
    rows, stride = seen.kernel[0], seen.stride[0]
    return rows + stride + max(0, rows - seen.pad_top - stride), least_interval(tensor, seen, lanes)


def least_interval(tensor: Tensor, seen: Window, lanes: int) -> int:
    """Clocks of a row with lines enough: beats in or beats out, whichever is more."""
    height, width, channels = tensor.image
    out_height, out_width = window_shape(tensor, seen)
    return max(height * width, out_height * out_width * seen.kernel[1]) * (channels // lanes)


def window_interval(tensor: Tensor, seen: Window, lanes: int, lines: int, pace: float = 1.0) -> int:
    """Clocks from row to row: the writer and the reader, beat by beat, over some rows.

    pace: clocks from one beat of the source to the next at the earliest: a source as slow as the whole network, with nowhere to
    keep its beats, is what a window has to live with. The sink never waits.
    """
    height, width, channels = tensor.image
    out_height, _ = window_shape(tensor, seen)
    line = width * (channels // lanes)
    needs = window_needs(tensor, seen, channels // lanes).reshape(out_height, -1)
    steps = np.arange(needs.shape[1], dtype=np.int64)
    # lines that are wanted no more once an output row is done
    tops = np.arange(out_height) * seen.stride[0] - seen.pad_top
    freed = np.append(np.clip(tops[1:], 0, height), height)
    written = np.zeros(_ROWS * height * line, dtype=np.int64)  # the edge that takes each beat
    free = [-1] * lines  # the edge before which no beat of a line is taken, line by line
    done, reader, ends = 0, -1, []  # lines written
    for image in range(_ROWS):
        base = image * height
        for row, wanted in zip(needs, freed, strict=True):
            while done * line <= base * line + row[-1]:
                before = int(written[done * line - 1]) if done else -1
                start = max(before + pace, free[done] + 1)
                written[done * line : (done + 1) * line] = np.floor(start + np.arange(line) * pace)
                done += 1
            ready = np.maximum(written[base * line + row] + 1 - steps, reader + 1)
            reader = int((np.maximum.accumulate(ready) + steps)[-1])
            free += [reader] * (base + int(wanted) + lines - len(free))
        ends.append(reader)
    return ends[-1] - ends[-2]
