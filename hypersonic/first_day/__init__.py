# SPDX-License-Identifier: Apache-2.0
"""`hypersonic first-day`: what to run on the day when a card is there, in order, and what each step must show."""
