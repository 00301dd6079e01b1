# SPDX-License-Identifier: Apache-2.0
"""Y = X: the client asks for classes."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        return pb_utils.InferenceResponse([pb_utils.Tensor(t.name().replace("X", "Y"), t.as_numpy()) for t in request.inputs()])
