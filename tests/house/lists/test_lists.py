# SPDX-License-Identifier: Apache-2.0
"""The lists of docs/architecture.md are complete: an addition that writes the files of its list, and no others, works.

Each addition is small and real, and is made in a copy of the tree. One that needs a file which its list lacks fails, and so
does a list with a file that its addition does not need, unless that says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.lists import backend, layer, metric, platform, wire_format
from tests.house.lists.change import Change, copy_tree, covers, named_in, run_in, sections

CHANGES = [module.CHANGE for module in (layer, platform, wire_format, backend, metric)]

#: lists without an addition here; the messages of an RPC come with tritonclient
UNTRIED = {
    "A toolchain", "A kind of field in packed rows", "A kind of core", "A limit of a plan", "An accelerator driver", "An RPC",
}  # fmt: skip

#: rules for the tree that an addition could break
RULES = (
    "benches.py", "imports.py", "tables.py", "texts.py", "tree.py::test_no_code_file_is_longer_than_500_lines",
    "tree.py::test_no_folder_has_more_than_24_modules", "tree.py::test_every_code_file_names_its_licence",
)  # fmt: skip

#: these tests take a minute, and run when code of a list has changed
in_a_copy = pytest.mark.whole(
    "docs/architecture.md", "firmware", "hls", "host", "hypersonic", "plan", "server", "sim", "tests/house/lists"
)

each_change = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.section)


def test_every_list_is_tried_or_known_not_to_be() -> None:
    assert sorted(sections()) == sorted([*UNTRIED, *(change.section for change in CHANGES)])


@each_change
def test_a_list_names_every_file_that_an_addition_writes_and_no_other(change: Change) -> None:
    named = named_in(change.section)
    lacking = [file for file in sorted(change.files) if not any(covers(path, file) for path in named)]
    assert not lacking, f"the list {change.section!r} of docs/architecture.md lacks {lacking}"
    idle = {path for path in named if not any(covers(path, file) for file in change.files)}
    assert idle == set(change.unneeded), "the addition needs none of these, or it needs one that it says it does not"


@in_a_copy
@each_change
def test_an_addition_that_writes_the_files_of_its_list_works(change: Change, tmp_path: Path) -> None:
    change.apply(copy_tree(tmp_path))
    run_in(tmp_path, "-c", change.check)


@in_a_copy
def test_the_tree_keeps_its_rules_with_all_additions(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    for change in CHANGES:
        change.apply(tree)
    tests = dict.fromkeys(test for change in CHANGES for test in change.tests)
    run_in(
        tree, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, *(f"tests/house/test_{rule}" for rule in RULES)
    )
    files = sorted({file for change in CHANGES for file in change.files if file.endswith(".py")})
    run_in(tree, "-m", "ruff", "check", "--no-cache", *files)
    run_in(tree, "-m", "ruff", "format", "--no-cache", "--check", *files)


@pytest.mark.parametrize(
    ("path", "file", "meant"),
    [
        ("hls/spec.py", "hls/spec.py", True),
        ("hls/spec.py", "hls/spec.pyi", False),
        ("hls/layers/<layer>.py", "hls/layers/negate.py", True),
        ("hls/layers/<layer>.py", "hls/layers/deep/negate.py", False),
        ("sim/tb/<module>/", "sim/tb/rf_negate/test_rf_negate.py", True),
        ("sim/tb/rf_map/", "sim/tb/rf_map_all/test_rf_map_all.py", False),
    ],
)
def test_a_path_of_a_list_means_these_files(path: str, file: str, meant: bool) -> None:
    assert covers(path, file) is meant
