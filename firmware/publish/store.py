# SPDX-License-Identifier: Apache-2.0
"""The store of a repository's xclbins: the bytes of an xclbin that several models or versions share are on the disk once.

::

    <repository>/.<sha256 of the bytes>.xclbin      each version's model.xclbin is a hard link to one of these

They are files and not in a directory: tritonserver takes every directory of a repository, hidden or not, for a model. On a file
system without hard links there is no store, and each version has its own copy.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from hypersonic.firmware.publish.content import digest

_ENTRY = re.compile(r"\.[0-9a-f]{64}\.xclbin")
#: where earlier versions had the entries, without their first dot
_OLD_DIRECTORY = ".xclbins"


def share(file: Path, repository: Path) -> None:
    """Enter a complete, flushed file into the store. If its bytes are there already, the file becomes a link to these.

    An entry whose bytes are not those of its name is replaced. A file that cannot be linked, as on a file system without hard
    links, is left as it is. Raises OSError when the file cannot be read.
    """
    sha256 = digest(file)[1]
    entry = repository / f".{sha256}.xclbin"
    link = file.with_name(f".{file.name}.link")
    while True:
        try:
            if not entry.exists():
                os.link(file, entry)
                return
            if digest(entry)[1] != sha256:
                os.link(file, link)
                link.replace(entry)
                return
            os.link(entry, link)
            link.replace(file)
        except (FileExistsError, FileNotFoundError):
            continue  # another publish has made or removed the entry meanwhile
        except OSError:
            link.unlink(missing_ok=True)
        return


def prune(repository: Path) -> None:
    """Remove the entries that no version links to, and move those of an earlier version of this project to their place."""
    with suppress(OSError):
        for old in (repository / _OLD_DIRECTORY).iterdir():
            old.rename(repository / f".{old.name}")
        (repository / _OLD_DIRECTORY).rmdir()
    for entry in repository.iterdir():
        with suppress(OSError):
            if _ENTRY.fullmatch(entry.name) and entry.stat().st_nlink == 1:
                entry.unlink()
