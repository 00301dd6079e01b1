# SPDX-License-Identifier: Apache-2.0
"""IMAGE, a binary PPM file -> PIXELS in [0, 1], channel first."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy().reshape(-1)
        return pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", np.stack([self.pixels(file) for file in files]))])

    def pixels(self, file):
        head, _, data = file.partition(b"\n")
        kind, width, height, _ = head.split()
        if kind != b"P6":
            raise pb_utils.TritonModelException("IMAGE is not a binary PPM file")
        shape = (int(height), int(width), 3)
        return np.frombuffer(data, np.uint8).reshape(shape).transpose(2, 0, 1).astype(np.float32) / 255
