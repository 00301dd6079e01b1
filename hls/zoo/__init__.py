# SPDX-License-Identifier: Apache-2.0
"""Networks that come with the project: trained weights, and the events they were trained on."""
