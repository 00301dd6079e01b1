# SPDX-License-Identifier: Apache-2.0
"""OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1, in the datatype of the inputs; BYTES hold decimal integers."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "INPUT1"))
        if a.dtype == np.object_:
            a, b = a.astype(np.int64), b.astype(np.int64)
            sums = [np.array([str(v).encode() for v in c.reshape(-1)], np.object_).reshape(a.shape) for c in (a + b, a - b)]
        else:
            sums = [a + b, a - b]
        return pb_utils.InferenceResponse([pb_utils.Tensor(f"OUTPUT{i}", v) for i, v in enumerate(sums)])
