# SPDX-License-Identifier: Apache-2.0
"""Farms as sites have them: several models, kinds of cards and classes of jobs, computed and simulated from one description.

The description is that of the simulation, plan/farm: a Farm and its loads. read.py makes it from a file, analyse.py computes
its rates and times, and plan/farm simulates it. Both read the same fields, and tests compare their figures.
"""
