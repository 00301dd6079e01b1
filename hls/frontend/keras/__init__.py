# SPDX-License-Identifier: Apache-2.0
"""The front end for Keras 2 and QKeras models."""
