# SPDX-License-Identifier: Apache-2.0
"""Model configurations: config.pbtxt and its JSON form, read and checked once, at load."""
