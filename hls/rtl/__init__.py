# SPDX-License-Identifier: Apache-2.0
"""Modules of SystemVerilog that cores are made of, and the simulation of whole cores."""
