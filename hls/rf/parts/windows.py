# SPDX-License-Identifier: Apache-2.0
"""The input beats that rf_window needs for each window, and the number of memory lines with which it keeps up."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network.base import Tensor, Window
from hypersonic.hls.network.windows import window_shape
from hypersonic.hls.rf.needs import KEPT, Beats, in_turn, shared

#: number of rows over which the interval is measured
_ROWS = 6


def window_needs(tensor: Tensor, seen: Window, beats_a_pixel: int) -> Beats:
    """Return the index of the last input beat that each output beat (oy, ox, cb, kw) needs.

    It is in the window's last line. For a column of padding it is the first beat of that line on the left side, and the last
    one on the right side. The images of a row follow each other.
    """
    height, width, _ = tensor.image
    one = _window_needs((height, width), window_shape(tensor, seen), seen, beats_a_pixel)
    return one if tensor.images == 1 else in_turn(one, tensor.images, height * width * beats_a_pixel)


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
    """Return the rows of a weight array (kernel row, kernel column, channel) in the order of rf_window's beats.

    The beats are in the order (cb, kw); the elements of a beat are in the order (kh, lane).
    """
    rows, columns = seen.kernel
    index = np.arange(rows * columns * tensor.channels).reshape(rows, columns, tensor.channels // lanes, lanes)
    return index.transpose(2, 1, 0, 3).reshape(-1)


def fewest_lines(tensor: Tensor, seen: Window, lanes: int, interval: int) -> tuple[int, int]:
    """Return the fewest lines of memory that reach `interval`, or else the shortest interval, and the clocks per row with
    them."""
    if tensor.images > 1:
        lines, clocks = fewest_lines(replace(tensor, shape=tensor.image), seen, lanes, interval // tensor.images)
        return lines, clocks * tensor.images
    least, height = seen.kernel[0] + seen.stride[0], tensor.image[0]
    best = max(interval, least_interval(tensor, seen, lanes))
    pace = max(1.0, interval / (height * tensor.image[1] * (tensor.channels // lanes)))
    tried = [(least, window_interval(tensor, seen, lanes, least, pace))]
    while tried[-1][1] > best and tried[-1][0] < 2 * height + least:
        lines = tried[-1][0] + 1
        tried.append((lines, window_interval(tensor, seen, lanes, lines, pace)))
    lines, clocks = min(tried, key=lambda one: (one[1], one[0]))
    # if only the source is slow, measure the window's own interval
    return lines, clocks if clocks > best else window_interval(tensor, seen, lanes, lines)


def enough_lines(tensor: Tensor, seen: Window, lanes: int) -> tuple[int, int]:
    """Return a number of lines that reaches the least interval, and that interval; fewest_lines may find fewer lines."""
    rows, stride = seen.kernel[0], seen.stride[0]
    return rows + stride + max(0, rows - seen.pad_top - stride), least_interval(tensor, seen, lanes)


def least_interval(tensor: Tensor, seen: Window, lanes: int) -> int:
    """Return the clocks per row with enough lines: the larger of input beats and output beats."""
    height, width, channels = tensor.image
    out_height, out_width = window_shape(tensor, seen)
    return max(height * width, out_height * out_width * seen.kernel[1]) * (channels // lanes) * tensor.images


def window_interval(tensor: Tensor, seen: Window, lanes: int, lines: int, pace: float = 1.0) -> int:
    """Return the clocks from image to image, by simulating writer and reader beat by beat over some images.

    A window must cope with a source that is as slow as the whole network and cannot buffer its beats. The sink is always ready.

    Args:
        pace: minimum clocks between beats of the source.
    """
    height, width, channels = tensor.image
    out_height, _ = window_shape(tensor, seen)
    line = width * (channels // lanes)
    needs = window_needs(tensor, seen, channels // lanes).reshape(out_height, -1)
    steps = np.arange(needs.shape[1], dtype=np.int64)
    # input lines that are no longer needed once an output row is done
    tops = np.arange(out_height) * seen.stride[0] - seen.pad_top
    freed = np.append(np.clip(tops[1:], 0, height), height)
    written = np.zeros(_ROWS * height * line, dtype=np.int64)  # the edge at which each beat is accepted
    free = [-1] * lines  # by line, the edge before which no beat is accepted
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
