# SPDX-License-Identifier: Apache-2.0
"""DeepTau: grids of cells around a tau, each cell through the same network; run by onnxruntime."""
