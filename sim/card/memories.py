# SPDX-License-Identifier: Apache-2.0
"""Put a core's memory files into its simulator: write a C++ source that includes them through the assembler, and a table.

sim/emu/memory_file.h declares the table; sim/emu/memories.h writes the files to a directory where $readmemh reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

#: this file, on which the content of a built simulator depends
MEMORIES = Path(__file__).resolve()

#: the C++ file that write_memories writes
SOURCE_NAME = "memories.cpp"


def write_memories(memories: Sequence[Path], directory: Path) -> Path:
    """Write directory/memories.cpp, which has the contents of `memories` by their base names, and return its path."""
    source = directory / SOURCE_NAME
    source.write_text("\n".join(_lines([memory.resolve() for memory in memories])) + "\n")
    return source


def _lines(memories: Sequence[Path]) -> Iterator[str]:
    yield "// Written by sim/card/memories.py."
    yield '#include "memory_file.h"'  # and no more: other headers take seconds to compile
    for index, memory in enumerate(memories):
        file = f".incbin {_quoted(str(memory))}"
        directives = (".pushsection .rodata", f"memory_{index}:", file, f"memory_{index}_end:", ".popsection")
        yield f"asm({_quoted('; '.join(directives))});"
        yield f'extern "C" __attribute__((visibility("hidden"))) const char memory_{index}[], memory_{index}_end[];'
    entries = ", ".join(
        f"{{{_quoted(memory.name)}, memory_{index}, memory_{index}_end}}" for index, memory in enumerate(memories)
    )
    yield f"static const emu::MemoryFile kTable[] = {{{entries or '{nullptr, nullptr, nullptr}'}}};"
    yield "const emu::MemoryFile *const emu::kMemories = kTable;"
    yield f"const size_t emu::kMemoryCount = {len(memories)};"


def _quoted(text: str) -> str:
    """A string literal, of C++ or of the assembler."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
