# SPDX-License-Identifier: Apache-2.0
"""External tools under a memory limit: how much is available, how much a tool and its children use, and how they are ended."""
