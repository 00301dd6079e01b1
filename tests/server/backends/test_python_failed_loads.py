# SPDX-License-Identifier: Apache-2.0
"""Loads that fail, in every way a model.py can: the reason is said, and nothing stays behind."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.errors import ModelLoadError
from tests.server.python_models import DOUBLE, FLOATS, config_of, message_of, source, write_python


def left() -> Counter[str]:
    """The resources of this process and its children: open files by kind, mappings of memory files, threads, processes."""
    files = [str(fd.readlink()).split(":")[0] for fd in Path("/proc/self/fd").iterdir() if os.path.lexists(fd)]
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "model tensors" in line]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Counter([*files, *["mapping"] * len(mapped), *["thread"] * threading.active_count(), *["child"] * len(children)])


def nothing(path: Path) -> None:
    """There is no model.py."""
    del path


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


HANGS = "import time\ntime.sleep(600)\n"
#: what model.py is -> what the reason says
KINDS: dict[str, tuple[str | Callable[[Path], object], str]] = {
    "wrong syntax": ("def f(:\n", "SyntaxError: invalid syntax"),
    "hangs when asked to complete": (f"# auto_complete_config\n{HANGS}", "within 1 s"),
    "exits in initialize": (source(DOUBLE, "sys.exit(3)"), "SystemExit: 3"),
    "dies in initialize": (source(DOUBLE, "os._exit(3)"), "is not healthy"),
    "hangs in initialize": (source(DOUBLE, "time.sleep(600)"), "within 1 s"),
    "floods the server": (source(DOUBLE, "while True: print('x' * 1000)"), "within 1 s"),
    "missing": (nothing, r"m/1/model.py is missing: backend 'python' expects a file with class TritonPythonModel"),
    "a FIFO": (os.mkfifo, r"m/1/model.py is a FIFO, not a file: backend 'python' expects"),
    "a directory": (Path.mkdir, r"m/1/model.py is a directory, not a file: backend 'python' expects"),
    "a socket": (bound, r"m/1/model.py is a socket, not a file: backend 'python' expects"),
    "a link to nothing": (lambda path: path.symlink_to("gone.py"), r"m/1/model.py is a link to a file that is missing: "),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    what, reason = KINDS[kind]
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    directory = write_python(tmp_path / "models", "m", what if isinstance(what, str) else "")
    if not isinstance(what, str):
        (directory / "model.py").unlink()
        what(directory / "model.py")
    files = sorted(directory.parent.rglob("*"))
    backend = PythonBackend(load_timeout_s=1 if "within 1 s" in reason else 60)
    before = left()
    if "asked to complete" in kind:
        with pytest.raises(ModelLoadError, match=reason):
            backend.complete(directory, message_of(FLOATS))
    with pytest.raises(ModelLoadError, match=reason):
        backend.load(directory, config_of(FLOATS))
    assert not left() - before, (left(), before)  # threads of other tests may have ended meanwhile
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(directory.parent.rglob("*")) == files
