# SPDX-License-Identifier: Apache-2.0
"""OUTPUT = sum of INPUT over the sequence so far, plus the number that its correlation id, a text, spells where it ends."""

import triton_python_backend_utils as pb_utils


def control(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)[0]


class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        text = control(request, "CORRID")
        total = x if control(request, "START") else self.totals[text] + x
        self.totals[text] = total
        last = int(text) if control(request, "END") else 0
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", total + last)])
