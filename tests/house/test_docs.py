# SPDX-License-Identifier: Apache-2.0
"""The pages name only what exists: links, commands and their options, paths, rounding and overflow modes in tables."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hypersonic import cli
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.spec import DATATYPES
from hypersonic.server.core.config.read import read_config

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?<![\w/.-])hypersonic ([a-z]+(?:-[a-z]+)*)\b([^`\n]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_PATH = re.compile(r"(?<![\w/.<-])((?:hls|firmware|host|server|client|sim|hypersonic|tests|bench|docs|deploy)/[\w./-]*\w/?)")
_MODULE = re.compile(r"python (?:-P )?-m (hypersonic(?:\.\w+)+)")
_SCRIPT = re.compile(r"python ((?:\w+/)+\w+\.py)")

#: what `hypersonic train` hands on; its parser is in a module that needs TensorFlow
TRAINING = set(_OPTION.findall((ROOT / "hls" / "zoo" / "training.py").read_text()))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings outside code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ +(.*?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands() -> dict[str, argparse.ArgumentParser]:
    (action,) = (action for action in cli.make_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command, and of its actions if it has any."""
    of_actions = [action.choices.values() for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    own = {option for action in parser._actions for option in action.option_strings}
    return own.union(*(options(action) for actions in of_actions for action in actions))


def joined(page: Path) -> str:
    """The page's text, lines that end in a backslash joined."""
    return re.sub(r"\\\n\s*", " ", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in _LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_and_option_is_one_the_program_knows(page: Path) -> None:
    known = commands()
    unknown = [
        f"{name} {option}".strip()
        for name, rest in _COMMAND.findall(joined(page))
        for option in _OPTION.findall(re.split(r"[|;#]| -- ", rest)[0]) or [""]
        if not allowed(known, page, name, option)
    ]
    assert not unknown


def allowed(known: dict[str, argparse.ArgumentParser], page: Path, name: str, option: str) -> bool:
    """Return whether the page may use this name and option; in running text a word after `hypersonic` need not be a command."""
    if name not in known:
        return not option and f"`hypersonic {name}" not in page.read_text()
    return not option or option in options(known[name]) | (TRAINING if name == "train" else set())


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "coming-from-triton"], ids=page_name)
def test_every_option_in_running_text_is_one_of_some_command(page: Path) -> None:
    """Options alone between backticks, such as `--kernel-mhz 250`; one page is about tritonserver's options, not ours."""
    known = set[str]().union(*(options(parser) for parser in commands().values()), {"--help", "--version"})
    assert not set(re.findall(r"`(--[a-z][\w-]*)(?:[ =][^`]*)?`", page.read_text())) - known


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_path_of_the_tree_exists(page: Path) -> None:
    paths = {*_PATH.findall(joined(page)), *_SCRIPT.findall(joined(page))}
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
    assert not [module for module in _MODULE.findall(joined(page)) if find_spec(module) is None]


def table(page: Path, kind: type[Rounding | Overflow], width: int) -> Iterator[tuple[str, list[float], list[int]]]:
    """(mode, the head's numbers, the row's numbers) of each row with `width` numbers that begins with one of kind's modes."""
    head: list[float] = []
    for line in page.read_text().splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if cells[0] in ("rounding", "overflow"):
            head = [float(cell) for cell in cells[2:]]
        elif cells[0] in list(kind) and len(cells) == width + 2:
            yield cells[0], head, [int(cell) for cell in cells[2:]]


def test_the_tables_of_rounding_and_overflow_are_what_the_fixed_point_types_do() -> None:
    page = ROOT / "docs" / "wire-formats.md"
    rows = 0
    for mode, numbers, expected in table(page, Rounding, 8):
        fixed = FixedPoint(8, 8, rounding=Rounding(mode))
        assert fixed.from_float(np.array(numbers)).tolist() == expected, mode
        rows += 1
    for mode, numbers, expected in [*table(page, Overflow, 9), *table(page, Overflow, 8)]:
        fixed = FixedPoint(8, 8, signed=len(numbers) == 9, overflow=Overflow(mode))
        assert fixed.from_float(np.array(numbers)).tolist() == expected, mode
        rows += 1
    assert rows == len(Rounding) + 2 * len(Overflow)


def test_the_table_of_wire_formats_has_each_of_them() -> None:
    text = (ROOT / "docs" / "wire-formats.md").read_text()
    section = text.partition("## The formats")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[\w`, ]+`) \| ([\d, ]+) \|", section, re.MULTILINE)
    listed = [pair for names, sizes in rows for pair in zip(re.findall(r"\w+", names), sizes.split(", "), strict=True)]
    assert dict(listed) == {name: str(datatype.bytes) for name, datatype in DATATYPES.items()}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def test_the_yaml_of_the_pages_describes_models(tmp_path: Path) -> None:
    (tutorial, several), (wire, *packed) = blocks("describe.md", "yaml"), blocks("wire-formats.md", "yaml")
    inputs = [f"name: facile\n{text}output: {{name: output}}\n" for text in packed]
    for text in (*inputs, tutorial, f"name: several\n{several}", f"name: facile\n{wire}"):
        (tmp_path / "model.yaml").write_text(text)
        described = read_description(tmp_path / "model.h5")
        assert described.inputs[0].fixed == FixedPoint.parse(str(described.inputs[0].fixed))
    assert (described.inputs[0].datatype, described.outputs[0].datatype) == ("INT16", "FP16")


def test_the_configuration_of_the_manual_names_cards_and_buffers(tmp_path: Path) -> None:
    (text,) = blocks("manual.md", "text")
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }'
    (tmp_path / "config.pbtxt").write_text(f'backend: "fpga" max_batch_size: 8 {tensors}\n{text}')
    config = read_config(tmp_path / "config.pbtxt", "facile")
    assert config.devices == (0, 1)
    assert [config.integer(name, 0) for name in ("slots", "slot_rows", "timeout_ms")] == [4, 16384, 10000]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_thousands_of_a_number_are_separated_by_commas_as_the_commands_do(page: Path) -> None:
    spaced = re.compile(r"(?<![\w.,+/^-])\d{1,3}(?: \d{3})+(?!\w)")
    assert [number for line in page.read_text().splitlines() for number in spaced.findall(line)] == []
