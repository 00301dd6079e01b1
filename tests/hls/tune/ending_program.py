# SPDX-License-Identifier: Apache-2.0
"""Stands for converting.py: it ends at its first request, and answers in a process that is started again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    request = json.loads(sys.stdin.readline())
    seen = Path(f"{sys.argv[1]}.seen")
    if not seen.exists():
        seen.touch()
        sys.exit("IndexError: beyond the end")
    Path(request["reply"]).write_text(json.dumps({"answer": [["x", [4], False]]}))
    sys.stdout.write("\nhypersonic: answered\n")
