# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line, one file each."""
