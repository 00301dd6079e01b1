# SPDX-License-Identifier: Apache-2.0
"""DeepTau: identification of a tau from two grids of cells around it. The onnxruntime backend runs it."""
