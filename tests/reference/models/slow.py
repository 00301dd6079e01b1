# SPDX-License-Identifier: Apache-2.0
"""OUTPUT0 = INPUT0, after as many milliseconds as INPUT0 says."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        xs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        time.sleep(max(int(x.max()) for x in xs) / 1000)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", x)]) for x in xs]
