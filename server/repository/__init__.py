# SPDX-License-Identifier: Apache-2.0
"""The model repository: which models there are, and how they get into service and out of it."""
