# SPDX-License-Identifier: Apache-2.0
"""The rf core: layers that time-share their multipliers, as a pipeline of RTL stages connected by streams."""
