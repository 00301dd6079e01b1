# SPDX-License-Identifier: Apache-2.0
"""AWS F2: a kernel as custom logic connected to the shell."""
