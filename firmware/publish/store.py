# SPDX-License-Identifier: Apache-2.0
"""The store of a repository's xclbins: the bytes of an xclbin that several models or versions share are on the disk once.

::

    <repository>/.xclbins/<sha256 of the bytes>.xclbin      each version's model.xclbin is a hard link to one of these

On a file system without hard links there is no store, and each version has its own copy.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hypersonic.firmware.publish.content import digest

DIRECTORY = ".xclbins"
SUFFIX = ".xclbin"


def share(file: Path, repository: Path) -> None:
    """Enter a complete, flushed file into the store. If its bytes are there already, the file becomes a link to these.

    An entry whose bytes are not those of its name is replaced. Raises OSError when the file cannot be read or the
    store's directory cannot be made. A file that cannot be linked, as on a file system without hard links, is left as it is.
    """
    sha256 = digest(file)[1]
    entry = repository / DIRECTORY / f"{sha256}{SUFFIX}"
    link = file.with_name(f".{file.name}.link")
    while True:
        entry.parent.mkdir(exist_ok=True)
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
            with suppress(OSError):
                entry.parent.rmdir()  # removes it only if it is empty
        return


def prune(repository: Path) -> None:
    """Remove the entries that no version links to."""
    place = repository / DIRECTORY
    for entry in place.iterdir() if place.is_dir() else ():
        with suppress(OSError):
            if entry.stat().st_nlink == 1:
                entry.unlink()
