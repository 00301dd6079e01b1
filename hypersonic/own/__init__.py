# SPDX-License-Identifier: Apache-2.0
"""A user's own model, treated like those of the zoo: its rows and labels as a task, and pictures of its answers."""
