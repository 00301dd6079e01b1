# SPDX-License-Identifier: Apache-2.0
"""A model file and the YAML beside it -> hls4ml's ModelGraph."""
