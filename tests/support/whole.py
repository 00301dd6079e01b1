# SPDX-License-Identifier: Apache-2.0
"""The tests of slow parts, which run when these have changed, and the record of what they last passed on.

`@pytest.mark.whole` marks a test that covers COVERED, its own module and the helper modules in its folder;
`@pytest.mark.whole("deploy/image")` names other files and folders, or patterns of git's (`tests/*.txt` are those in all
folders below). The option --whole says which of these tests run: `none`, `changed` (those of which the covered files differ
from the record; `make test`) or `all` (`make test-all`). When all tests of a module with the same covered paths have passed,
the hash of these files goes into RECORD, which is committed with the change; of Python it is that of the code, without comments
and docstrings. So CI runs them only for a change that nobody has run them on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from hypersonic.hls.cache import content_sha256
from hypersonic.hls.sources import code_hash

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("whole.json")
CHOICES = ("none", "changed", "all")
#: ends the key of tests that `make test` leaves out, so that those beside them are recorded without them
HOURS = "[hours]"
#: results below a folder that many marks cover: the file counts only for marks that name its own folder
RESULTS = {"sim/timing": "sim/timing/ledger.json"}
#: what a mark without arguments covers: what a network is built of
COVERED = ("firmware", "hls", "hypersonic/building", "requirements.lock", "sim")


def group_of(covered: Sequence[str], module: Path, *, hours: bool = False) -> str:
    """Return the key of RECORD for what a mark names, in a test module.

    Raises ValueError if it names a file or folder that does not exist.

    Args:
        hours: of the tests with the mark `hours`.
    """
    missing = [name for name in covered if "*" not in name and not (ROOT / name).exists()]
    if missing:
        raise ValueError(f"the mark `whole` names {', '.join(missing)}, expected files or folders of this project")
    own = [str(module.relative_to(ROOT))] if module.is_relative_to(ROOT) else []
    return " ".join([*own, *sorted(covered or COVERED), *([HOURS] if hours else [])])


@cache
def hash_of(group: str, root: Path = ROOT) -> str:
    """Return the SHA-256 of the names and contents of a group's files, and of the helper modules beside its test module."""
    covered = [word for word in group.split() if word != HOURS]
    beside = [f"{Path(covered[0]).parent}/*.py"] if Path(covered[0]).name.startswith("test_") else []
    names = {*_listed(covered, root), *(name for name in _listed(beside, root) if _is_helper(name, covered[0]))}
    names -= {result for folder, result in RESULTS.items() if folder not in covered}
    files = [root / name for name in sorted(names) if name]
    words = "docs" in covered  # the site shows docstrings
    return content_sha256(
        [part for file in files if file.is_file() for part in (str(file.relative_to(root)), _content(file, words=words))]
    )


def _content(file: Path, *, words: bool) -> bytes:
    """Return what counts of a file; of Python without `words` what runs, without comments, docstrings and layout."""
    return file.read_bytes() if words or file.suffix != ".py" else code_hash(file).encode()


def _listed(patterns: Sequence[str], root: Path) -> list[str]:
    """The files that git finds by patterns, tracked ones and new ones that it does not ignore."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0") if patterns else []


def _is_helper(name: str, module: str) -> bool:
    return Path(name).parent == Path(module).parent and not Path(name).name.startswith("test_")


def recorded(record: Path = RECORD) -> dict[str, str]:
    """Return the hash for each group in the record."""
    groups: dict[str, str] = json.loads(record.read_text()) if record.is_file() else {}
    return groups


def is_wanted(group: str, choice: str) -> bool:
    """Return whether the tests of a group run. choice: one of CHOICES. Without git, nothing is known to have changed."""
    if choice != "changed":
        return choice == "all"
    return (ROOT / ".git").exists() and recorded().get(group) != hash_of(group)


def record_passed(groups: Iterable[str], record: Path = RECORD) -> None:
    """Write the hashes of these groups into the record."""
    passed = {group: hash_of(group) for group in groups}
    if passed:
        record.write_text(json.dumps(recorded(record) | passed, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Print the test modules whose tests with the mark `whole` have not passed on these files."""
    argv = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "--whole=changed", "-m", "whole", *sys.argv[1:]]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    modules = sorted({line.partition(":")[0] for line in listed if ".py" in line})
    text = "have not passed on these files; run make test-all WHOLE=changed:" if modules else "have passed on these files"
    sys.stdout.write("\n  ".join([f"the tests with the mark `whole` {text}", *modules]) + "\n")


if __name__ == "__main__":
    main()
