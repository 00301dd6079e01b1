# SPDX-License-Identifier: Apache-2.0
"""`python -m hypersonic` runs the command line."""

from __future__ import annotations

from hypersonic.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
