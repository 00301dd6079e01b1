# SPDX-License-Identifier: Apache-2.0
"""Replaces a model's own names in a kernel's generated RTL: two kernels that differ only in these names are the same.

The names of layers and tensors appear in the generated RTL: in names of signals, instances, modules and memory files, and in
comments. A framework numbers unnamed layers (`dense_4`, `input_layer_1`), so equal networks get different names in each
session. Here each such name is replaced by the number of its first appearance, and the name of a memory file by a hash of its
contents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from hypersonic.hls.names import KEYWORDS

#: comments, texts, and identifiers of SystemVerilog, but not the letters of a number (8'hff), a $task or a `macro
_PARTS = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?P<text>[^"\n]*)"|(?<![\w$'`])(?P<name>[A-Za-z_][\w$]*)""", re.DOTALL | re.ASCII)


def nameless(generated: Sequence[str], others: Sequence[str], memories: Sequence[Path]) -> list[str]:
    """Return generated RTL with numbers for names that occur nowhere else, and memory files as the SHA-256 of their contents.

    Args:
        generated: texts of SystemVerilog, in compile order.
        others: texts with names that stay, such as those of the modules that are not generated and of the top module.
        memories: the files that the generated texts name.
    """
    kept = KEYWORDS | {match["name"] for text in others for match in _PARTS.finditer(text) if match["name"]}
    contents = {file.name: sha256(file.read_bytes()).hexdigest() for file in memories}
    numbers: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        name, text = match["name"], match["text"]
        if text is not None:
            return f'"{contents.get(text, text)}"'
        if name is None:
            return ""
        return name if name in kept else numbers.setdefault(name, f"n{len(numbers)}'")

    return [_PARTS.sub(renamed, text) for text in generated]
