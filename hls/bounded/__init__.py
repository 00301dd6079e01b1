# SPDX-License-Identifier: Apache-2.0
"""External tools under a limit of memory: what is available, what a tool and its children take, and how they are ended."""
