# SPDX-License-Identifier: Apache-2.0
"""A model folder to copy (hls/zoo/README.md). It is one level deeper than the models, so that no command lists it as one."""
