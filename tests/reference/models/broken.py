# SPDX-License-Identifier: Apache-2.0
"""Does not load."""


class TritonPythonModel:
    def initialize(self, args):
        raise ValueError("this model does not load")

    def execute(self, requests):
        return []
