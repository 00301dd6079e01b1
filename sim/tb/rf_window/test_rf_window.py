# SPDX-License-Identifier: Apache-2.0
"""rf_window against slices of padded arrays: strides, paddings, odd shapes, sequences, and the clocks of an image."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import Parameters, RowCase
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, pack, sized


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. shape: (H, W, C); kernel and stride: (down, across); pad: (top, bottom, left, right); more_lines: lines of
    memory above the minimum; images: of a row."""

    name: str
    shape: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    lanes: int = 1
    width: int = 8
    pad_value: int = 0
    more_lines: int = 0
    images: int = 1

    @property
    def out(self) -> tuple[int, int]:
        (h, w, _), (k_h, k_w), (s_h, s_w), (top, bottom, left, right) = self.shape, self.kernel, self.stride, self.pad
        return (h + top + bottom - k_h) // s_h + 1, (w + left + right - k_w) // s_w + 1

    @property
    def beats_in(self) -> int:
        h, w, c = self.shape
        return h * w * c // self.lanes

    @property
    def beats_out(self) -> int:
        return self.out[0] * self.out[1] * self.kernel[1] * self.shape[2] // self.lanes

    def dut(self) -> Dut:
        h, w, c = self.shape
        parameters: Parameters = {
            "H": h, "W": w, "C": c, "LANES": self.lanes, "WIDTH": self.width, "K_H": self.kernel[0], "K_W": self.kernel[1],
            "S_H": self.stride[0], "S_W": self.stride[1], "PAD_TOP": self.pad[0], "PAD_LEFT": self.pad[2],
            "OUT_H": self.out[0], "OUT_W": self.out[1], "PAD_VALUE": sized(self.pad_value, 64),
            "LINES": self.kernel[0] + self.stride[0] + self.more_lines, "IMAGES": self.images,
        }  # fmt: skip
        bits = self.lanes * self.width
        return Dut("rf_window", parameters, {"s_axis": bits}, self.kernel[0] * bits)

    def windows(self, image: list[int]) -> list[list[int]]:
        """The expected elements of each output beat."""
        (h, w, c), (k_h, k_w), (s_h, s_w) = self.shape, self.kernel, self.stride

        def element(y: int, x: int, channel: int) -> int:
            return image[(y * w + x) * c + channel] if 0 <= y < h and 0 <= x < w else self.pad_value

        return [
            [
                element(oy * s_h + kh - self.pad[0], ox * s_w + kw - self.pad[2], channel + lane)
                for kh in range(k_h)
                for lane in range(self.lanes)
            ]
            for oy in range(self.out[0])
            for ox in range(self.out[1])
            for channel in range(0, c, self.lanes)
            for kw in range(k_w)
        ]

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        size = self.shape[0] * self.shape[1] * self.shape[2]
        images = [[rng.getrandbits(self.width) for _ in range(size)] for _ in range(self.images)]
        windows = [window for image in images for window in self.windows(image)]
        source = beats_of([element for image in images for element in image], self.lanes, self.width)
        return source, [Beat(pack(window, self.width), i + 1 == len(windows)) for i, window in enumerate(windows)]


CASES = [
    Case("same", (6, 5, 2), (3, 3), pad=(1, 1, 1, 1)),
    Case("valid", (6, 5, 2), (3, 3), lanes=2),
    Case("valid_with_lines_to_spare", (6, 5, 2), (3, 3), lanes=2, more_lines=2),
    Case("stride_2", (7, 8, 3), (3, 3), (2, 2), (1, 1, 1, 0), lanes=3, pad_value=0x80),
    Case("pooling", (6, 7, 4), (2, 2), (2, 2), lanes=4, width=5),
    Case("rest_of_the_image_unused", (8, 8, 1), (2, 2), (3, 3)),
    Case("stride_over_the_kernel", (9, 9, 1), (2, 1), (4, 3)),
    Case("tall_kernel", (5, 3, 1), (5, 1)),
    Case("kernel_over_the_image", (2, 2, 1), (3, 3), pad=(1, 1, 1, 1), pad_value=3),
    Case("one_pixel", (1, 1, 3), (1, 1)),
    Case("one_pixel_padded", (1, 1, 1), (3, 3), pad=(1, 1, 1, 1)),
    Case("sequence", (9, 1, 2), (3, 1), pad=(1, 1, 0, 0), lanes=2),
    Case("sequence_one_beat", (12, 1, 1), (7, 1), (2, 1), (3, 2, 0, 0)),
    Case("sequence_one_line", (1, 9, 2), (1, 3), pad=(0, 0, 1, 1)),
    Case("one_column_of_rows", (6, 4, 2), (1, 1), (2, 2)),
    Case("wide_pad", (3, 3, 1), (4, 4), (2, 2), (3, 3, 3, 3), pad_value=9),
    Case("padding_below_alone", (2, 3, 1), (2, 2), (1, 1), (1, 3, 1, 3), pad_value=1),
    Case("wide_element", (4, 4, 1), (2, 3), width=50, pad=(0, 1, 0, 2)),
    Case("one_output_of_many_rows", (11, 2, 1), (2, 2), (20, 1)),
    Case("three_images_a_row", (4, 3, 2), (3, 2), (2, 1), (1, 0, 0, 1), lanes=2, images=3),
    Case("two_images_a_row", (3, 3, 1), (2, 2), images=2),
]


def test_windows_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=5, reset_after=(1, 5, 23, 60))


def test_an_image_takes_the_clocks_of_the_busier_side(bench: StreamBench, case: Case) -> None:
    images = 8 * case.images
    taken = bench.taken_at(case, 8, seed=3)
    ends = taken[case.beats_out - 1 :: case.beats_out]
    interval = (ends[-1] - ends[1]) / (images - 2)
    late = max(0, case.kernel[0] - case.pad[0] - case.stride[0] - case.more_lines) * case.beats_in // case.shape[0]
    assert interval <= max(case.beats_in, case.beats_out) + late
