# SPDX-License-Identifier: Apache-2.0
"""A build enters a model repository."""
