# SPDX-License-Identifier: Apache-2.0
"""SUM = sum of X over the sequence so far, by correlation id; controls come as tensors. SEEN = (start, ready, end)."""

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return 0 if tensor is None else int(tensor.as_numpy().reshape(-1)[0])


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        start, ready, end = (control(request, name) for name in ("START", "READY", "END"))
        corrid = control(request, "CORRID")
        total = x if start else self.sums.get(corrid, 0) + x
        self.sums[corrid] = total
        seen = np.array([[start, ready, end]], np.int32)
        ids = np.array([[corrid]], np.uint64)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("SUM", total), pb_utils.Tensor("SEEN", seen), pb_utils.Tensor("ID", ids)]
        )
