# SPDX-License-Identifier: Apache-2.0
"""Builds the image of a Dockerfile without a container engine: its own RUN lines are executed in directories.

A layer is a directory of the cache, as the engines have them: the upper directory of an overlay over the layers before it. The
base is made with debootstrap, as Debian's own images are. Needs root; no image is pulled.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypersonic.hls.cache import cache_directory, cached
from tests.deploy.sites.dockerfile import Stage, State, parse
from tests.support.optional import needs, needs_root

ROOT = Path(__file__).parents[3]
#: what debootstrap makes for a base
SUITES = {"debian:12": "bookworm"}
_KEPT_S = 24 * 3600
#: where the host's certificates are while RUN lines are executed: a site may have an authority of its own
CERTIFICATES, HOST = "/mnt/certificates.crt", Path("/etc/ssl/certs/ca-certificates.crt")


class BuildError(RuntimeError):
    """A line of the Dockerfile failed; its text and output."""


@dataclass(frozen=True)
class Image:
    """A built image: its layers, the base first, and what its last stage has set."""

    layers: tuple[Path, ...]
    state: State

    def command(self, words: Sequence[str], top: Path, binds: dict[Path, str] | None = None, **variables: str) -> list[str]:
        """Return the command that executes words in the image: read-only but for /tmp, as the image's user, with the host's
        network.

        top: an empty directory, at which the command mounts the image for itself. binds: directories of the host -> where they
        are mounted, read-only.
        """
        lines = [*_mounts(self.layers, str(top)), f"mount -t tmpfs -o mode=1777 tmpfs {top}/tmp"]
        for source, target in (binds or {}).items():
            lines += [f"mount --bind {shlex.quote(str(source))} {top}{target}", f"mount -o remount,bind,ro {top}{target}"]
        return _unshared([*lines, _chroot(str(top), self.state, words, variables)])


def missing() -> str:
    """Why images cannot be built here; "" if they can."""
    if shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return needs("debootstrap")
    if reason := needs_root():
        return reason
    with tempfile.TemporaryDirectory() as directory:
        for name in ("lower", "upper", "work", "top"):
            Path(directory, name).mkdir()
        options = f"lowerdir={directory}/lower,upperdir={directory}/upper,workdir={directory}/work"
        done = subprocess.run(
            _unshared([f"mount -t overlay -o {options} overlay {directory}/top"]), capture_output=True, check=False
        )
    return "" if done.returncode == 0 else f"needs overlay file systems: {done.stderr.decode().strip()}"


def build(file: Path, **build_arguments: str) -> Image:
    """Build the last stage of the Dockerfile. Raises BuildError."""
    built: dict[str, tuple[Path, ...]] = {}
    layers: tuple[Path, ...] = ()
    state = State()
    for stage in parse(file):
        layers, state = _build_stage(stage, built, build_arguments)
        built[stage.name] = layers
    used = {layer for each in built.values() for layer in each}
    for layer in used:
        os.utime(layer)
    _remove_old(used)
    return Image(layers, state)


def _remove_old(used: set[Path]) -> None:
    """Remove layers that nothing has used for a day: each change of the sources makes new ones."""
    for place in (cache_directory() / "image-layer").glob("[0-9a-f]*"):
        if place not in used and time.time() - place.stat().st_mtime > _KEPT_S:
            shutil.rmtree(place, ignore_errors=True)


def _build_stage(stage: Stage, built: dict[str, tuple[Path, ...]], arguments: dict[str, str]) -> tuple[tuple[Path, ...], State]:
    suite = SUITES[stage.base]
    layers: tuple[Path, ...] = (cached("image-base", [suite, "minbase"], lambda directory: _debootstrap(suite, directory)),)
    state = State()
    for word, rest in stage.instructions:
        if state.apply(word, rest, arguments):
            continue
        if word == "COPY" and rest.startswith("--from="):
            source, *paths = shlex.split(rest.removeprefix("--from="))
            layers = (*layers, _layer(layers, state, _copy_of_stage(*paths), [str(path) for path in built[source]]))
        elif word == "COPY":
            layers = (*layers, _copied(layers, state, rest.split()))
        else:
            layers = (*layers, _layer(layers, state, rest, []))
    return layers, state


def _debootstrap(suite: str, directory: Path) -> None:
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", suite, str(directory)], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
    )  # fmt: skip
    if done.returncode:
        raise BuildError(f"debootstrap {suite}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def _copied(layers: tuple[Path, ...], state: State, words: list[str]) -> Path:
    """The layer of a COPY from the context: the tracked files, so that nothing that was built beside them is in the image."""
    *sources, target = words
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *sources], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = [Path(name) for name in listed.split("\0") if name]
    if not files:
        raise BuildError(f"COPY {' '.join(words)}: the repository has no such file")

    def fill(directory: Path) -> None:
        place = directory / "diff" / os.path.normpath(f"{state.directory}/{target}").lstrip("/")
        for file in files:
            inside = [
                file.relative_to(source) for source in sources if file.is_relative_to(source) and Path(ROOT, source).is_dir()
            ]
            single = place / file.name if target.endswith("/") else place
            goal = place / inside[0] if inside else single
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, goal, follow_symlinks=False)

    contents = [part for file in files for part in _contents(file)]
    return cached("image-layer", [*map(str, layers), state.directory, target, *contents], fill)


def _contents(file: Path) -> list[str | bytes]:
    path = ROOT / file
    return [str(file), oct(path.lstat().st_mode), str(path.readlink()) if path.is_symlink() else path.read_bytes()]


def _copy_of_stage(source: str, target: str) -> str:
    """A shell line that copies a directory from another stage, which is mounted at /mnt/stage then."""
    return f"mkdir -p $(dirname {target}) && cp -a /mnt/stage{source} {target}"


def _layer(layers: tuple[Path, ...], state: State, line: str, stage: list[str]) -> Path:
    """The layer of a RUN line, or of a COPY from the stage whose layers are given."""
    parts = [*map(str, layers), *stage, line, state.directory, repr(state.environment), repr(state.arguments), state.user]

    def fill(directory: Path) -> None:
        for name in ("diff", "work", "top"):
            (directory / name).mkdir()
        top = str(directory / "top")
        lines = _mounts(layers, top, f"upperdir={directory}/diff,workdir={directory}/work")
        lines += [f"mkdir -p {top}{shlex.quote(state.directory)}", f"mount -t tmpfs tmpfs {top}/mnt"]
        lines += [f"cp {HOST} {top}{CERTIFICATES}", f"cp /etc/resolv.conf {top}/mnt/resolv.conf"]
        lines += [f"test ! -e {top}/etc/resolv.conf || mount --bind /etc/resolv.conf {top}/etc/resolv.conf"]
        if stage:
            lines += [f"mkdir {top}/mnt/stage", *_overlay([Path(each) for each in stage], f"{top}/mnt/stage")]
        variables = {"SSL_CERT_FILE": CERTIFICATES, "PIP_CERT": CERTIFICATES, "DEBIAN_FRONTEND": "noninteractive"}
        command = _chroot(top, state, ["/bin/sh", "-c", line], variables)
        done = subprocess.run(_unshared([*lines, command]), capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode:
            raise BuildError(f"{line}\nended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        shutil.rmtree(directory / "work", ignore_errors=True)

    return cached("image-layer", parts, fill)


def _mounts(layers: Sequence[Path], top: str, upper: str = "") -> list[str]:
    return [*_overlay(layers, top, upper), f"mount -t proc proc {top}/proc", f"mount --rbind /dev {top}/dev"]


def _overlay(layers: Sequence[Path], top: str, upper: str = "") -> list[str]:
    """Mount the layers at `top`; read-only without `upper`. The base is a directory itself, other layers have one, `diff`."""
    lower = ":".join(str(path / "diff" if (path / "diff").is_dir() else path) for path in reversed(layers))
    options = f"lowerdir={lower}" + (f",{upper}" if upper else "")
    return [f"mount -t overlay -o {options} overlay {top}"]


def _unshared(lines: Sequence[str]) -> list[str]:
    """A command that runs shell lines with mounts of its own, which end with it. The last line may be an exec."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)]


def _chroot(top: str, state: State, words: Sequence[str], variables: dict[str, str]) -> str:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {"PATH": path, "HOME": "/tmp" if state.user else "/root", **state.arguments, **state.environment, **variables}
    given = [f"{name}={value}" for name, value in environment.items()]
    user = [f"--userspec={state.user}", "--groups="] if state.user else []
    inner = f'cd {shlex.quote(state.directory)} && exec "$@"'
    return f"exec {shlex.join(['chroot', *user, top, 'env', '-i', *given, 'sh', '-c', inner, 'sh', *words])}"
