# SPDX-License-Identifier: Apache-2.0
"""Publishing a build into a model repository: completely or not at all, even if the machine stops in the middle.

::

    <repository>/<model>/config.pbtxt
    <repository>/<model>/<version>/{model.xclbin, manifest.json, weights.bin}, or the files of another backend
    <repository>/.<sha256>.xclbin, the bytes of each model.xclbin, which are hard links to it (store.py)

weights.bin exists only where the kernel loads its weights at run time.

Everything is written under a name that begins with a dot, which servers ignore, is flushed to the disk, and is then renamed.
The rename of the version directory is the last step, and the only one that makes the build visible.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import ManifestError, PublishError
from hypersonic.firmware.publish import config_pbtxt, manifest, store
from hypersonic.firmware.publish.content import Content, digest, opened
from hypersonic.firmware.publish.manifest import WEIGHTS_NAME, Manifest, check, check_weights
from hypersonic.firmware.target import Target
from hypersonic.hls.disk import naming
from hypersonic.hls.resources import NOT_ESTIMATED
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

XCLBIN_NAME = "model.xclbin"

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_PIECE_BYTES = 1 << 20
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


def publish(
    repository: Path, xclbin: bytes, build: Manifest, config: str, *, weights: Content | None = None, version: int | None = None
) -> Path:
    """Publish one build and return its version directory. The repository is created if it does not exist.

    The model's name is the manifest's.

    Args:
        version: None means the next free number.
        config: the text of config.pbtxt, which replaces the model's present one.
        weights: for a kernel that reads them from memory.

    Raises:
        PublishError: For a name that cannot be a directory's, for a version that exists, and for tensors that differ from those
            of the model's present versions (all versions share one config.pbtxt).
        ManifestMismatchError: When xclbin, weights and manifest are not from the same build.
        OSError: When the files cannot be written.
    """
    _check_names(build.model, version)
    check(build, xclbin)
    if build.weights_bytes or weights is not None:
        check_weights(build, weights if weights is not None else b"")
    _check_tensors(repository / build.model, build)
    files: dict[str, Content] = {XCLBIN_NAME: xclbin, manifest.FILE_NAME: build.to_json().encode()}
    if weights is not None:
        files[WEIGHTS_NAME] = weights
    return publish_files(repository, build.model, files, {config_pbtxt.FILE_NAME: config.encode()}, version=version)


def publish_files(
    repository: Path, model: str, files: Mapping[str, Content], beside: Mapping[str, bytes], *, version: int | None = None
) -> Path:
    """Publish the files of any backend and return the version directory.

    Raises OSError when the files cannot be written.

    Args:
        files: name -> content, for the version directory.
        beside: name -> content, for the model's directory: config.pbtxt and the files that it names, which replace the present
            ones.

    Raises:
        PublishError: For a name that cannot be a directory's, for a version that exists, and for files that the newest version
            does not have: one config.pbtxt names one backend for all versions.
    """
    _check_names(model, version)
    place = repository / model
    _check_backend(place, files)
    repository.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".publish-", dir=repository))
    try:
        staged = scratch / model
        with naming(place):
            _write(staged / str(version or 1), files)
            _write(staged, beside)
        if XCLBIN_NAME in files:
            store.share(staged / str(version or 1) / XCLBIN_NAME, repository)
        published = _enter(staged, place, tuple(beside), version)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for directory in (place, repository):
        _sync(directory)
    store.prune(repository)
    return published


def _enter(staged: Path, place: Path, beside: tuple[str, ...], version: int | None) -> Path:
    """Rename what is staged into place and return the version directory. A new model's directory is renamed as a whole; an
    existing one gets the files beside its versions first, then the version."""
    if not place.exists():
        try:
            staged.rename(place)
        except OSError:
            if not place.is_dir():
                raise
        else:
            return place / str(version or 1)
    for name in beside:
        (staged / name).replace(place / name)
    return _rename(staged / str(version or 1), place, version)


def check_repository(repository: Path) -> None:
    """Raises PublishError when no build can be published there: the path leads through a file, or is not writable."""
    place = next(path for path in (repository, *repository.absolute().parents) if path.exists() or path.is_symlink())
    if not place.is_dir():
        raise PublishError(f"model repository {repository}: {place} is not a directory; choose another one")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PublishError(f"model repository {repository}: {place} is not writable for this user; choose another one")


def versions(repository: Path, model: str) -> tuple[int, ...]:
    """The published versions of a model in ascending order; empty when there are none."""
    place = repository / model
    names = [entry.name for entry in place.iterdir() if entry.is_dir()] if place.is_dir() else []
    return tuple(sorted(int(name) for name in names if _VERSION.fullmatch(name)))


def check_name(model: str) -> None:
    """Raises PublishError for a model name that cannot be a directory's."""
    if not _MODEL.fullmatch(model):
        raise PublishError(f"model name is {model!r}, expected at most 128 letters, digits, '_', '.' and '-', not a dot first")


def _check_names(model: str, version: int | None) -> None:
    check_name(model)
    if version is not None and not _VERSION.fullmatch(str(version)):
        raise PublishError(f"version is {version}, expected a positive number")


def _check_tensors(place: Path, build: Manifest) -> None:
    present = versions(place.parent, place.name)
    path = place / str(present[-1]) / manifest.FILE_NAME if present else None
    if path is None or not path.is_file():
        return
    try:
        old = Manifest.read(path)
    except ManifestError as error:
        raise PublishError(f"{error} (in a version that exists already): remove {place} first") from error
    for role, was, now in (("inputs", old.inputs, build.inputs), ("outputs", old.outputs, build.outputs)):
        if _described(was) != _described(now):
            raise PublishError(
                f"{place}: version {present[-1]} has {role} {_described(was)}, the new build {_described(now)}; versions share "
                "one config.pbtxt: publish under another name or remove the model first"
            )


def _check_backend(place: Path, files: Mapping[str, Content]) -> None:
    """Raises PublishError when the newest version lacks one of these files. weights.bin is not required, because one model may
    have versions with weights.bin and versions without."""
    present = versions(place.parent, place.name)
    newest = place / str(present[-1]) if present else place
    missing = sorted(name for name in files if name != WEIGHTS_NAME and not (newest / name).is_file())
    if present and missing:
        there = ", ".join(sorted(path.name for path in newest.iterdir())) or "nothing"
        raise PublishError(
            f"{place}: version {present[-1]} has {there}, the new build {', '.join(sorted(files))} ({', '.join(missing)} is "
            "missing); versions share one config.pbtxt: publish under another name or remove the model first"
        )


def _described(row: Row) -> str:
    return ", ".join(f"{tensor.name} {tensor.datatype} {list(tensor.shape)}{_layout(tensor)}" for tensor in row.tensors)


def _layout(tensor: TensorSpec) -> str:
    """The fields of a packed row, which every version of a model shares too."""
    return f" of {json.dumps(tensor.packing.layout()['fields'])}" if tensor.packing and tensor.is_packed else ""


def _write(directory: Path, files: Mapping[str, Content]) -> None:
    """Write new files; they are flushed to the disk when this returns."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with (directory / name).open("xb") as file, opened(content) as source:
            shutil.copyfileobj(source, file, _PIECE_BYTES)
            file.flush()
            os.fsync(file.fileno())
    _sync(directory)


def _rename(staged: Path, place: Path, version: int | None) -> Path:
    """Make the staged directory visible under its version. A rename onto an existing version fails, so of two processes that
    publish at once one tries the next number."""
    while True:
        present = versions(place.parent, place.name)
        number = version if version is not None else (present[-1] if present else 0) + 1
        target = place / str(number)
        try:
            staged.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise
            if version is not None:
                raise PublishError(f"{target} exists already; remove it first, or give no version") from error
        else:
            return target


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_published(repository: Path, build: Manifest) -> Path | None:
    """The directory of the newest version of the build's model, if it is this same build; None otherwise.

    The estimate of resources is not compared: add_resources replaces it.
    """
    present = versions(repository, build.model)
    newest = repository / build.model / str(present[-1]) if present else None
    if newest is None or not all((newest / name).is_file() for name in (manifest.FILE_NAME, XCLBIN_NAME)):
        return None
    published, wanted = json.loads((newest / manifest.FILE_NAME).read_text()), json.loads(build.to_json())
    same = _without_estimate(published) == _without_estimate(wanted)
    return newest if same and digest(newest / XCLBIN_NAME)[1] == build.sha256 and _has_weights(newest, build) else None


def add_resources(version: Path, entry: Mapping[str, Any]) -> None:
    """Put an estimate of resources into the manifest of a published version, in the place of an older one. The file is replaced
    as a whole. An existing estimate is kept if this one could not be made. Raises ManifestError, OSError."""
    file = version / manifest.FILE_NAME
    build = Manifest.read(file)
    present = build.report.get("resources")
    if present == entry or (present and NOT_ESTIMATED in entry):
        return
    scratch = Path(tempfile.mkdtemp(prefix=".publish-", dir=version.parent.parent))
    try:
        _write(scratch, {file.name: replace(build, report={**build.report, "resources": entry}).to_json().encode()})
        (scratch / file.name).replace(file)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _sync(version)


def displaced(repository: Path, build: Manifest) -> str:
    """A note for the user: the newest published version is for another target, and will no longer be served once this build
    is published. Empty when that is not so."""
    present = versions(repository, build.model)
    place = repository / build.model
    try:
        old = Manifest.read(place / str(present[-1]) / manifest.FILE_NAME) if present else build
    except (ManifestError, OSError):
        return ""
    if old.target is build.target:
        return ""
    lesser = min(old.target, build.target, key=list(Target).index)
    return (
        f"{place}: version {present[-1]} is a {old.target} build, and this {build.target} build takes its place: a server "
        f"serves the latest version. To serve both, build one of them with another name, such as --name {build.model}_{lesser}"
    )


def _has_weights(version: Path, build: Manifest) -> bool:
    file = version / WEIGHTS_NAME
    if not build.weights_bytes:
        return not file.exists()
    return file.is_file() and digest(file) == (build.weights_bytes, build.weights_sha256)


def _without_estimate(fields: Any) -> Any:
    report = fields.get("report") if isinstance(fields, dict) else None
    if not isinstance(report, dict):
        return fields
    return {**fields, "report": {key: value for key, value in report.items() if key != "resources"}}
