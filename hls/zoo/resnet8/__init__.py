# SPDX-License-Identifier: Apache-2.0
"""ResNet-8 of MLPerf Tiny, trained on toy calorimeter images."""
