# SPDX-License-Identifier: Apache-2.0
"""Each input IN_x that is given comes back as OUT_x, without passing through numpy where numpy has no such datatype."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.copy(tensor) for tensor in request.inputs()]) for request in requests]

    def copy(self, tensor):
        name = tensor.name().replace("IN", "OUT", 1)
        if name.endswith("BF16"):
            return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())
        return pb_utils.Tensor(name, tensor.as_numpy())
