# SPDX-License-Identifier: Apache-2.0
"""The front end: reads a model file and the YAML beside it, and gives hls4ml's ModelGraph."""
