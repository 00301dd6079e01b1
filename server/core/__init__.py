# SPDX-License-Identifier: Apache-2.0
"""Models and requests, independent of the wire: configurations, checks, queues, batches, ensembles."""
