# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own test cases, from its source distribution. They are fetched into the cache and are not part of this
repository."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from hypersonic.hls.cache import cached

#: the source distribution, as pip's --require-hashes wants it
LOCKED = "hls4ml==1.3.0 --hash=sha256:bb231fe0ed1e8dbca2b353dafc3ccb96a5bf9c6a14cd6ff13bb7606407e834ae"

#: what the cases need of it
_WANTED = ("test/pytest/", "example-models/")


class FetchError(RuntimeError):
    """The source distribution could not be fetched. The message has pip's words."""


def hls4ml_tests() -> Path:
    """Return the directory of the cache with test/pytest/ and example-models/. It is filled first if it is not there.

    Raises FetchError if the package index does not answer or has another file than the one locked here.
    """
    return cached("hls4ml_tests", [LOCKED, *_WANTED], _fetch)


def _fetch(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        (scratch / "requirements.txt").write_text(f"{LOCKED}\n")
        options = ["--quiet", "--no-deps", "--no-binary", "hls4ml", "--require-hashes", "--dest", temporary]
        argv = [sys.executable, "-m", "pip", "download", *options, "-r", str(scratch / "requirements.txt")]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise FetchError(f"hls4ml's source distribution could not be fetched: {done.stderr.strip()[-500:]}")
        with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
            # Not extract(): only Python 3.11.4 and later have its filters.
            for member in archive.getmembers():
                name = member.name.partition("/")[2]
                content = archive.extractfile(member) if name.startswith(_WANTED) and member.isreg() else None
                if content is not None:
                    (directory / name).parent.mkdir(parents=True, exist_ok=True)
                    (directory / name).write_bytes(content.read())
