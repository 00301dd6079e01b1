# SPDX-License-Identifier: Apache-2.0
"""Decoupled: OUT = one element of IN at a time, each DELAY[i] ms after the one before; execute returns after WAIT ms."""

import threading
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.senders = []

    def execute(self, requests):
        for request in requests:
            values, delays_ms, wait_ms = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "DELAY", "WAIT")
            )
            thread = threading.Thread(target=self.send, args=(request.get_response_sender(), values, delays_ms))
            self.senders.append(thread)
            thread.start()
            time.sleep(int(wait_ms[0]) / 1000)

    def send(self, sender, values, delays_ms):
        for i, delay_ms in enumerate(delays_ms):
            time.sleep(int(delay_ms) / 1000)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values[i : i + 1])]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self.senders:
            thread.join()
