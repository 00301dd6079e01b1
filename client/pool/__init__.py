# SPDX-License-Identifier: Apache-2.0
"""The servers of a client: what is known of each, which one takes the next request, and who is asked again when."""
