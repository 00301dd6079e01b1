# SPDX-License-Identifier: Apache-2.0
"""Starts and stops a server with the options of CMSSW's script cmsTriton."""
