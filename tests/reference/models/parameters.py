# SPDX-License-Identifier: Apache-2.0
"""Answers what it sees of its request, as JSON."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        seen = {
            "id": request.request_id(),
            "correlation_id": request.correlation_id(),
            "flags": request.flags(),
            "timeout": request.timeout(),
            "parameters": json.loads(request.parameters()),
            "requested": sorted(request.requested_output_names()),
            "inputs": [t.name() for t in request.inputs()],
        }
        text = json.dumps(seen, sort_keys=True).encode()
        answer = [pb_utils.Tensor("SEEN", np.array([text], np.object_))]
        return pb_utils.InferenceResponse(answer)
