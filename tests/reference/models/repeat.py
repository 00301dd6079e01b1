# SPDX-License-Identifier: Apache-2.0
"""Decoupled: one answer per element of IN, none for an empty one, an error where the element is negative."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i, value in enumerate(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().reshape(-1)):
                sender.send(self.answer(i, value))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def answer(self, i, value):
        if value < 0:
            return pb_utils.InferenceResponse([], pb_utils.TritonError(f"value {value} is negative"))
        tensors = [pb_utils.Tensor("OUT", np.array([value], np.int32)), pb_utils.Tensor("IDX", np.array([i], np.uint32))]
        return pb_utils.InferenceResponse(tensors)
