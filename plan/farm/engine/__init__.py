# SPDX-License-Identifier: Apache-2.0
"""The moving parts of the simulation: a clock, wires, servers, clients and loads, and the meter that records them.

All times are seconds of simulated time from 0, as floats.
"""
