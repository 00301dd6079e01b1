# SPDX-License-Identifier: Apache-2.0
"""Publishing a build into a model repository."""
