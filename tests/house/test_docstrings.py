# SPDX-License-Identifier: Apache-2.0
"""Docstrings have Google's sections, as Sphinx' napoleon and editors read them, and name what there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from textwrap import dedent

import pytest

from tests.house.graph import ROOT
from tests.house.tracked import tracked_files

#: the folders of the API reference
DOCUMENTED = ("client", "firmware", "hls", "host", "hypersonic", "plan", "server", "sim", "triton")

Function = ast.FunctionDef | ast.AsyncFunctionDef
_ENTRY = re.compile(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*):? ?")


@cache
def documented() -> tuple[tuple[str, ast.AST, str], ...]:
    """(place, node, docstring) of every function and class of the API reference."""
    return tuple(_documented())


def _documented() -> Iterator[tuple[str, ast.AST, str]]:
    for file in tracked_files():
        place = file.relative_to(ROOT)
        if file.suffix != ".py" or place.parts[0] not in DOCUMENTED or place.is_relative_to("sim/tb"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, Function | ast.ClassDef) and (text := ast.get_docstring(node)):
                yield f"{place}:{node.lineno}", node, text


def names(node: ast.AST) -> set[str]:
    """The parameters of a function, or the fields of a class and the parameters and attributes of its __init__."""
    if isinstance(node, Function):
        every = node.args
        found = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
        return {argument.arg for argument in found if argument and argument.arg not in ("self", "cls")}
    assert isinstance(node, ast.ClassDef)
    fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
    made = [part for part in node.body if isinstance(part, Function) and part.name == "__init__"]
    return fields.union(*(names(part) for part in made), *(_assigned(part) for part in made))


def _assigned(init: ast.AST) -> set[str]:
    """The attributes that __init__ gives its object."""
    targets = (node for node in ast.walk(init) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {target.attr for target in targets if isinstance(target.value, ast.Name) and target.value.id == "self"}


def sections(text: str) -> dict[str, list[str]]:
    """Section -> its entries' names; the text before the first section is under ""."""
    found, current = dict[str, list[str]](), ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"(Args|Attributes|Raises|Returns):", line):
            current = heading[1]
        elif not current:
            found.setdefault("", []).append(line)
        elif entry := _ENTRY.match(line):
            found.setdefault(current, []).extend(name.strip("*") for name in entry[1].split(", "))
    return found


@pytest.mark.parametrize("section", ["Args", "Attributes"])
def test_a_section_names_parameters_and_fields_that_exist(section: str) -> None:
    wrong = [
        f"{place}: {section} has {name!r}, expected one of {', '.join(sorted(names(node))) or 'nothing'}"
        for place, node, text in documented()
        for name in sections(text).get(section, [])
        if name not in names(node)
    ]
    assert not wrong, "\n".join(wrong)


def test_parameters_are_described_in_sections_and_not_in_sentences() -> None:
    hidden = []
    for place, node, text in documented():
        prose = " ".join(sections(text).get("", []))
        hidden += [f"{place}: {name}" for name in names(node) if re.search(rf"(?:^|[.;] +){name}: \S", prose)]
    assert not hidden, f"write them under Args: or Attributes: {hidden}"


def test_a_hidden_parameter_and_a_wrong_name_are_found() -> None:
    (node,) = ast.parse(dedent("def f(a: int, b: int) -> None: ...")).body
    text = "Do it. a: a number.\n\nArgs:\n    c: another.\n        b: not an entry."
    assert (names(node), sections(text)["Args"]) == ({"a", "b"}, ["c"])
    assert re.search(r"(?:^|[.;] +)a: \S", " ".join(sections(text)[""]))
