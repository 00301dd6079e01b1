# SPDX-License-Identifier: Apache-2.0
"""Our declarations of Triton's backend API against its headers, where a site has them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hypersonic.triton.compile import CPP
from tests.support.optional import NOT_IN_ANY_PACKAGE, skip

#: the folder with tritonbackend.h and tritonserver.h; NVIDIA's images have it in this place
VARIABLE, PLACE = "HYPERSONIC_TRITON_HEADERS", Path("/opt/tritonserver/include/triton/core")
OURS = CPP / "backend" / "api.hpp"
_FUNCTION = re.compile(r"([\w* ]+?)\b(TRITON(?:SERVER|BACKEND)_\w+)\s*\(([^()]*)\)\s*(?:__attribute__\(\(weak\)\))?;")
_ENUM = re.compile(r"typedef enum \w*\s*\{([^}]*)\}\s*(\w+);")


def headers() -> str:
    """The text of both headers, without comments. Skips the test where there are none."""
    directory = Path(os.environ.get(VARIABLE, PLACE))
    files = [directory / "tritonbackend.h", directory / "tritonserver.h"]
    if not all(file.is_file() for file in files):
        skip(f"{NOT_IN_ANY_PACKAGE}, the headers of triton-inference-server/core, whose folder {VARIABLE} names")
    return plain("\n".join(file.read_text() for file in files))


def plain(text: str) -> str:
    """The declarations without comments, macros and the word struct."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|^#[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\b(TRITON\w+_(?:DECLSPEC|ISPEC)|struct)\b", "", text)


def functions(text: str) -> dict[str, list[str]]:
    """Name -> the types of the result and of the arguments. A `const` of a value has no effect on a call."""
    found = {}
    for result, name, arguments in _FUNCTION.findall(" ".join(text.split())):
        types = [result, *(re.sub(r"\w+$", "", argument.strip()) for argument in arguments.split(","))]
        found[name] = [part.replace(" ", "") if "*" in part else re.sub(r"\bconst\b| ", "", part) for part in types]
    return found


def enums(text: str) -> dict[str, list[str]]:
    return {name: re.findall(r"\b(TRITON\w+)", body) for body, name in _ENUM.findall(text)}


def test_the_functions_are_declared_as_in_triton_s_headers() -> None:
    theirs, ours = functions(headers()), functions(plain(OURS.read_text()))
    assert len(ours) > 40
    assert ours == {name: theirs[name] for name in ours}


def test_the_numbers_of_enums_are_those_of_triton_s_headers() -> None:
    theirs, ours = enums(headers()), enums(plain(OURS.read_text()))
    assert len(ours) == 7
    for name, values in ours.items():
        assert theirs[name][: len(values)] == values, name
