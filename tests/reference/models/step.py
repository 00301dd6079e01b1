# SPDX-License-Identifier: Apache-2.0
"""OUTPUT = INPUT, plus 1 where a sequence starts, plus the correlation id (where the model is told it) where it ends."""

import triton_python_backend_utils as pb_utils


def control(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return 0 if tensor is None else int(tensor.as_numpy().reshape(-1)[0])


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        start, end, corrid = (control(request, name) for name in ("START", "END", "CORRID"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", x + (start + end * corrid))])
