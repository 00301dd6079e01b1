# SPDX-License-Identifier: Apache-2.0
"""A user's own model, treated like those of the zoo: its YAML, its rows and labels, and how its answers are judged."""
