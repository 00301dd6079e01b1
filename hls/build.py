# SPDX-License-Identifier: Apache-2.0
"""Builds a model's HLS project and core without TensorFlow in this process; earlier builds are found in the cache."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import hypersonic
from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached, is_cached
from hypersonic.hls.child import PROGRESS, ended, python_argv
from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CONVERTED, CoreKind
from hypersonic.hls.errors import ConversionError, ProjectError
from hypersonic.hls.frontend.description import (
    DescriptionError,
    ModelDescription,
    describe,
    description_file,
)
from hypersonic.hls.frontend.fields import table_references
from hypersonic.hls.frontend.hgq import environment_of
from hypersonic.hls.frontend.load import data_beside
from hypersonic.hls.frontend.rows import is_rows_file
from hypersonic.hls.project import HlsProject
from hypersonic.hls.sources import Program, files_beside, imports_of, program_hash


class ConversionFailedError(RuntimeError):
    """The conversion's process ended without a result or a refusal.

    The message gives its exit code or signal, its last line of output, and the file that holds the whole log.
    """

    exit_code = 1


_PACKAGE = Path(hypersonic.__file__).parent

#: where a conversion begins: here, and in the plugin that hls4ml loads (pyproject.toml, hls4ml.backends)
_ROOTS = ("hypersonic.hls.build", "hypersonic.hls.backend")

#: the folders of RTL that a core of a kind may name
_RTL = {CoreKind.DA: ("hls/rtl/axis",), CoreKind.RF: ("hls/rtl/axis", "hls/rtl/rf")}


def build_project(
    model: str, directory: Path, *, core: str = "", card: str = "", progress: Callable[[str], None] = lambda _: None
) -> tuple[HlsProject, Core | None]:
    """Convert `model` into `directory`, which is replaced when it exists; return the project, and its Core (None for csim).

    Raises what convert_model and describe raise, and ProjectError when `directory` holds something other than an HLS project.
    The other arguments are convert_model's.

    Args:
        model: a zoo name, or a path to a .h5, .keras or .onnx file with a YAML beside it.
    """
    _check_kind(core)
    project, rtl = convert_model(describe(model), core=core, card=card, progress=progress)
    _replace(directory, project.path)
    return HlsProject.load(directory), Core.load(directory / "core") if rtl else None


def convert_model(
    description: ModelDescription,
    *,
    core: str = "",
    card: str = "",
    progress: Callable[[str], None] = lambda _: None,
    keep_refused: bool = False,
) -> tuple[HlsProject, Core | None]:
    """Convert a model, or find it in the cache; return the project, and its Core (None for csim). Do not write to the result.

    Args:
        core: one of CONVERTED; "" takes da or rf, as the YAML's Strategy says.
        card: for an rf core, the JSON text of rf.fit.exchange.card_to_json; the reuse factors are then chosen to fill that
            card, and the report has the search as "fit". "" keeps the YAML's reuse factors.
        progress: called with one line of text per step.
        keep_refused: also return a project that is refused for what it computes; HlsProject.refused says why.

    Raises:
        ConversionError: With the conversion's own message, for what the user can correct.
        ConversionFailedError: Otherwise.
        ToolMemoryError: For one that needs more memory than its limit.
    """
    _check_kind(core)
    kind = CoreKind(core or description.core)
    parts = _parts(description.file, description, kind, card)
    place = cached("project", parts, lambda scratch: _convert(description.file, scratch, kind, card, progress))
    project = HlsProject.load(place)
    if project.refused and not keep_refused:
        raise ConversionError(project.refused)
    for note in project.report.get("notes", ()):
        progress(f"note: {note}")
    return project, Core.load(place / "core") if kind.has_rtl else None


def is_converted(description: ModelDescription, core: str) -> bool:
    """Return whether convert_model(description, core=core) would find its result in the cache.

    Args:
        core: one of CONVERTED.
    """
    return is_cached("project", _parts(description.file, description, core, ""))


def _check_kind(core: str) -> None:
    if core and core not in CONVERTED:
        raise DescriptionError(f"core is {str(core)!r}, expected one of {', '.join(CONVERTED)}")


def _parts(model_file: Path, description: ModelDescription, core: str, card: str) -> list[str | bytes | Path]:
    """Everything that the result of a conversion depends on, for the cache's key."""
    given = [description.gate.rows] if description.gate else []
    given += [name for side in description.inputs for key in side.packed for name in table_references(side.packed[key])]
    beside = [file for reference in given for file in _files_beside(model_file, reference)]
    program = compiler(core, beside, [reference.partition(":")[0] for reference in given])
    return [
        core, card, model_file, *data_beside(model_file), description_file(model_file), program_hash(program), *_versions(),
        *given, *beside,
    ]  # fmt: skip


def compiler(core: str = "", files: Sequence[Path] = (), roots: Sequence[str] = ()) -> Program:
    """Return the program that converts a model to a core of a kind.

    Args:
        core: one of CONVERTED; what only other kinds of cores need is then left out. "" leaves nothing out.
        files: Python files whose imports from hls/ belong to it too.
        roots: further dotted names of modules.
    """
    cuts = tuple(("hypersonic.hls.cores", f"hypersonic.hls.{kind}") for kind in _RTL if core not in ("", kind))
    data = {folder for kind, folders in _RTL.items() if core in ("", kind) for folder in folders}
    return Program(_PACKAGE, tuple(sorted({*_ROOTS, *roots, *imports_of(files)})), cuts, tuple(sorted(data)))


def _replace(directory: Path, built: Path) -> None:
    if directory.exists():
        if any(directory.iterdir()) and not (directory / "project.json").is_file():
            raise ProjectError(f"{directory} is not empty and does not hold an HLS project; give another directory")
        shutil.rmtree(directory)
    shutil.copytree(built, directory)


def _files_beside(model_file: Path, reference: str) -> list[Path]:
    """The file of rows, or the module beside the model that "module:function" names and the modules it imports from there."""
    if is_rows_file(reference):
        file = model_file.parent / reference
        return [file] if file.is_file() else []
    file = model_file.parent.joinpath(*reference.partition(":")[0].split(".")).with_suffix(".py")
    return files_beside(file, model_file.parent) if file.is_file() else []


def _versions() -> list[str]:
    return [f"{name} {version(name)}" for name in ("hls4ml", "da4ml", "qkeras", "tf-keras", "keras", "numpy", "onnx")]


def _convert(model_file: Path, directory: Path, core: str, card: str, progress: Callable[[str], None]) -> None:
    """Run hls/convert.py in a process of its own until it ends, and pass its progress lines on.

    A project that it writes and refuses stays, with the refusal in its report.
    `directory` may be renamed afterwards, because HlsProject.load takes the path from its argument and not from the file.
    """
    argv = python_argv("-m", "hypersonic.hls.convert", str(model_file), "--output", str(directory), "--core", core)
    argv += ["--card", card] * bool(card)
    log: list[str] = []
    environment = environment_of(model_file, progress)
    what = f"the conversion of {model_file}"
    with tool.start(argv, what, env=environment, **tool.PIPED) as running:
        for line in running.process.stdout or ():
            if line.startswith(PROGRESS):
                progress(line.removeprefix(PROGRESS).rstrip())
            log.append(line)
    code = running.process.returncode
    if refusal := ended(code, log).refusal:
        if (directory / "project.json").is_file():
            return
        raise ConversionError(refusal)
    tool.check(running, what, "".join(log), directory)
    if code:
        raise ConversionFailedError(_failure(model_file, code, log))


def _failure(model_file: Path, code: int, log: list[str]) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="hypersonic-convert-", suffix=".log", delete=False) as file:
        file.writelines(log)
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
    last = ended(code, log).last
    return f"the conversion of {model_file} {how}; its last line was: {last}; please report it with {file.name}"
