# SPDX-License-Identifier: Apache-2.0
"""A transformer that tags jets from their eight hardest particles, with bit widths that HGQ2 has learnt."""
