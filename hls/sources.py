# SPDX-License-Identifier: Apache-2.0
"""Finds this project's own source files: by folder, and by what a program of hls/ may import. Hashes them for keys of builds.

The modules of a program are found by reading their text: import statements wherever they are, names of modules in strings, and
every module of a package that is searched with pkgutil.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from hypersonic.hls.cache import CacheError, cached, content_hash

_PACKAGE, _ROOM = "hypersonic", "hypersonic.hls"
_DOTTED = re.compile(rf"{re.escape(_ROOM)}(\.\w+)+")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

#: (module, package): imports by the module from the package are not followed
Cut = tuple[str, str]


class NoSourcesError(RuntimeError):
    """A folder of this project has none of the files that belong there. The message names the folder and the pattern."""

    exit_code = 1


def source_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of `folder` that match a glob pattern, sorted. Raises NoSourcesError if there are none."""
    files = sorted(file for file in folder.glob(pattern) if file.is_file())
    if not files:
        raise NoSourcesError(
            f"{folder} has no {pattern}, expected at least one: either the installation is incomplete, or the files have moved"
        )
    return files


@dataclass(frozen=True)
class Module:
    """A module of this package.

    Attributes:
        name: dotted.
        code: code_hash of its file.
    """

    name: str
    file: Path
    code: str


def find_modules(package: Path, roots: Iterable[str], cuts: Sequence[Cut] = ()) -> list[Module]:
    """Return the modules of hls/ that some modules may import, themselves included, by name.

    The package's own __init__ is included, and the __init__ of each package above a module.

    Args:
        package: the directory of the package hypersonic.
        roots: dotted names of modules, or of what modules define.
    """
    found: dict[str, Module] = {}
    todo = list(roots)
    while todo:
        for name in _with_parents(todo.pop()):
            file = None if name in found else _file(package, name)
            if file:
                code, imported = _read(file.read_bytes(), name if file.name == "__init__.py" else name.rpartition(".")[0])
                found[name] = Module(name, file, code)
                searched = imported if "pkgutil" in imported else ()
                names = [*imported, *(f"{each}.{below}" for each in searched for below in _modules_in(package, each))]
                todo += (each for each in names if not any(_is_cut(name, each, cut) for cut in cuts))
    return [found[name] for name in sorted(found)]


def imports_of(files: Iterable[Path]) -> set[str]:
    """Return the dotted names that Python files take from the package. Files that are not Python take none."""
    names = {name for file in files if file.suffix == ".py" for name in _read(file.read_bytes())[1]}
    return {name for name in names if name.partition(".")[0] == _PACKAGE}


def files_beside(file: Path, directory: Path) -> list[Path]:
    """Return a Python file, and the modules of a directory that it imports, directly or through each other, sorted."""
    found: set[Path] = set()
    todo = [file]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            names = {above for name in _read(each.read_bytes())[1] for above in _with_parents(name)}
            todo += (other for name in names for other in _files(directory, name.split(".")) if other.is_file())
    return sorted(found)


def code_hash(file: Path) -> str:
    """Return the SHA-256 of what Python executes of a file: without comments, docstrings and layout, in 64 hex digits.

    For a file that Python cannot parse, all bytes count.
    """
    return _read(file.read_bytes())[0]


@cache
def _read(content: bytes, parent: str = "") -> tuple[str, tuple[str, ...]]:
    """The hash of a file's code, and every dotted name that it may import.

    Args:
        parent: where its relative imports start.
    """
    tree = _parsed(content)
    if tree is None:
        return sha256(content).hexdigest(), ()
    names = dict.fromkeys(name for node in ast.walk(tree) for name in _named(node, parent))
    return sha256(ast.dump(tree).encode()).hexdigest(), tuple(names)


def _parsed(content: bytes) -> ast.Module | None:
    """The tree of a Python file without its docstrings, or None if Python cannot parse it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return None
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


def _named(node: ast.AST, parent: str) -> Iterator[str]:
    """The names of an import statement, where `from a import b` may mean the module a.b, or a string that names a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = parent.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
        yield node.value


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _is_ours(name: str) -> bool:
    return name == _PACKAGE or f"{name}.".startswith(f"{_ROOM}.")


def _file(package: Path, name: str) -> Path | None:
    """The file of a module of hls/, or None if there is no such module."""
    files = _files(package, name.split(".")[1:]) if _is_ours(name) else ()
    return next((file for file in files if file.is_file()), None)


def _files(directory: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """The files that may hold the module of some names below a directory: a package's comes first, as for Python."""
    path = directory.joinpath(*names)
    return path / "__init__.py", path.parent / f"{path.name}.py"


def _modules_in(package: Path, name: str) -> list[str]:
    """The names of the modules and packages directly in a package of hls/."""
    folder = package.joinpath(*name.split(".")[1:])
    files = [*folder.glob("*.py"), *(file.parent for file in folder.glob("*/__init__.py"))] if _is_ours(name) else []
    return [file.stem for file in files if file.stem != "__init__"]


def _is_cut(module: str, name: str, cut: Cut) -> bool:
    return module == cut[0] and f"{name}.".startswith(f"{cut[1]}.")


@dataclass(frozen=True)
class Program:
    """The code of hls/ that a cached result depends on.

    Attributes:
        package: the directory of the package hypersonic.
        roots, cuts: as find_modules takes them.
        data: folders of the package with files that the modules read, such as "hls/rtl/axis", in addition to the folders of the
            modules themselves.
    """

    package: Path
    roots: tuple[str, ...]
    cuts: tuple[Cut, ...] = ()
    data: tuple[str, ...] = ()


def program_files(program: Program) -> tuple[list[Path], list[Path]]:
    """Return the modules of a program, and the other files of their folders and of its data, but not of folders below those.

    Markdown and hidden files are left out. Raises NoSourcesError if hls/ has no modules.
    """
    return _listed(program, _codes(program))


@cache
def program_hash(program: Program) -> str:
    """Return a hash of a program, computed once per process.

    It is that of the code of each module, without comments, docstrings and layout, and of the names and contents of all other
    files that program_files returns. Raises NoSourcesError if hls/ has no modules.
    """
    codes = _codes(program)
    return content_hash([json.dumps(codes), *_content(program, _listed(program, codes)[1])])


def _listed(program: Program, codes: Iterable[str]) -> tuple[list[Path], list[Path]]:
    modules = [program.package / file for file in codes]
    folders = {file.parent for file in modules} - {program.package} | {program.package / folder for folder in program.data}
    return modules, sorted(file for folder in folders for file in folder.iterdir() if _is_data(file))


def _codes(program: Program) -> dict[str, str]:
    """The modules of a program: file, relative to the package -> hash of its code.

    Parsing them takes half a second, so the result is cached under the hash of all modules below hls/.
    """

    def find() -> dict[str, str]:
        modules = find_modules(program.package, program.roots, program.cuts)
        return {module.file.relative_to(program.package).as_posix(): module.code for module in modules}

    every = [program.package / "__init__.py", *source_files(program.package / "hls", "**/*.py")]
    parts = [sys.version, json.dumps([program.roots, program.cuts]), *_content(program, every)]
    try:
        place = cached("program", parts, lambda directory: _write(directory / "codes.json", find()))
    except CacheError:  # a caller that needs the build itself gets this error from its own call
        return find()
    codes: dict[str, str] = json.loads((place / "codes.json").read_text())
    return codes


def _write(file: Path, codes: dict[str, str]) -> None:
    file.write_text(json.dumps(codes))


def _content(program: Program, files: Iterable[Path]) -> Iterable[str | bytes]:
    return (part for file in files for part in (file.relative_to(program.package).as_posix(), file.read_bytes()))


def _is_data(file: Path) -> bool:
    return file.is_file() and file.suffix not in (".py", ".md") and not file.name.startswith(".")
