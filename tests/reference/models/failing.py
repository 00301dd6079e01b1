# SPDX-License-Identifier: Apache-2.0
"""Fails in the way the request names."""

import os

import numpy as np
import triton_python_backend_utils as pb_utils


def fine(request):
    return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((1, 2), np.float32))])


class TritonPythonModel:
    def execute(self, requests):
        way = pb_utils.get_input_tensor_by_name(requests[0], "WAY").as_numpy().reshape(-1)[0].decode()
        return getattr(self, way)(requests)

    def nothing_wrong(self, requests):
        return [fine(request) for request in requests]

    def exception(self, requests):
        raise ValueError("this model fails")

    def error_response(self, requests):
        error = pb_utils.TritonError("this request fails")
        return [pb_utils.InferenceResponse([], error) for _ in requests]

    def error_code(self, requests):
        error = pb_utils.TritonError("this request is refused", pb_utils.TritonError.INVALID_ARG)
        return [pb_utils.InferenceResponse([], error) for _ in requests]

    def error_cancelled(self, requests):
        error = pb_utils.TritonError("this request is cancelled", pb_utils.TritonError.CANCELLED)
        return [pb_utils.InferenceResponse([], error) for _ in requests]

    def model_exception(self, requests):
        raise pb_utils.TritonModelException("a model exception")

    def too_few(self, requests):
        return []

    def too_many(self, requests):
        return [fine(request) for request in requests] * 2

    def none(self, requests):
        return None

    def none_response(self, requests):
        return [None for _ in requests]

    def not_a_response(self, requests):
        return ["text" for _ in requests]

    def wrong_dtype(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((1, 2), np.int32))]) for _ in requests]

    def wrong_shape(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((1, 3), np.float32))]) for _ in requests]

    def wrong_batch(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((2, 2), np.float32))]) for _ in requests]

    def unknown_output(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Z", np.zeros((1, 2), np.float32))]) for _ in requests]

    def no_output(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]

    def duplicate_output(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((1, 2), np.float32))] * 2) for _ in requests]

    def exits(self, requests):
        os._exit(3)
