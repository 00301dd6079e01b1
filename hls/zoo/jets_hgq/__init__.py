# SPDX-License-Identifier: Apache-2.0
"""The jet tagger with bit widths that HGQ2 has learnt: 16-64-32-32-5, one jet per clock."""
