# SPDX-License-Identifier: Apache-2.0
"""The height of a pulse from 16 samples. In your copy: one sentence that names the model, its inputs and its outputs."""
