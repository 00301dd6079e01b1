# SPDX-License-Identifier: Apache-2.0
"""DeepTau as CMS's ensemble, which takes the cells that are not empty, as lists."""
