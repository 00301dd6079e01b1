# SPDX-License-Identifier: Apache-2.0
"""DeepMET: the missing transverse momentum of an event from all its particle flow candidates, 5 373 parameters."""
