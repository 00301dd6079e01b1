# SPDX-License-Identifier: Apache-2.0
"""The error of `hypersonic plan`."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan cannot be made of these inputs. The message names the field, what it got, what it expected and what to do."""
