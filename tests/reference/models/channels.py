# SPDX-License-Identifier: Apache-2.0
"""SCORES = mean of each channel of PIXELS."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        pixels = pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", pixels.mean(axis=(2, 3)))])
