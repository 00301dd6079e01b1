# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build` of zoo models with layers that hls4ml lacks: no kernel is built; another backend of the server runs them.

::

    hls/zoo/<zoo name>/<zoo name>.yaml                 hls/zoo/<zoo name>/repository/<model>/
        name: <model>                                      config.pbtxt and the labels it names
        backend: onnxruntime                               1/model.py, of the python backend
        networks:
          <model>: "module:function"                   () -> bytes: the version's model.onnx
        events: "module:function"                        (rows, seed) -> inputs of a request, by name
        because: why hls4ml cannot convert it

repository/ holds the model `name` and, if that is an ensemble, the models that it consists of, in Triton's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from hypersonic.firmware.publish.config_pbtxt import FILE_NAME
from hypersonic.firmware.publish.repository import check_repository, publish_files, versions
from hypersonic.hls.frontend.description import ZOO
from hypersonic.installing import pip_install

MODEL = "model.onnx"
#: the directory with the files of a version; the published version may get another number
_VERSION = "1"

Progress = Callable[[str], None]


class OnHostError(ValueError):
    """Options for a kernel were given for a model without one, or the build extra is missing. The message says what to do."""


@dataclass(frozen=True)
class HostModel:
    """A zoo folder whose models run on the server's host.

    Attributes:
        name: the served model.
        because: why there is no kernel.
        events: "module:function" that returns the inputs of a request of `rows` rows, for a seed.
        networks: "module:function" that returns a model's ONNX file, by model.
        repository: the folder with the models' files.
    """

    name: str
    backend: str
    because: str
    events: str
    networks: Mapping[str, str]
    repository: Path

    @property
    def line(self) -> str:
        """A sentence that says how the model runs, and why not on a card."""
        return f"{self.name} runs on the host's processors, in the server's backend {self.backend}: {self.because}"


class KernelOptions(NamedTuple):
    """The options of `hypersonic build` about a kernel, with their defaults."""

    target: str = "hw_emu"
    platform: str = "u250"
    core: str = ""
    compute_units: int = 1
    datatypes: tuple[str, str] = ("", "")
    name: str = ""

    def list_given(self) -> Iterator[tuple[str, bool]]:
        """Yield each option as text, and whether it demands a kernel. --target sw_emu and hw_emu do not."""
        yield f"--target {self.target}", self.target not in ("sw_emu", "hw_emu")
        yield f"--platform {self.platform}", self.platform != "u250"
        yield f"--core {self.core}", bool(self.core)
        yield f"--compute-units {self.compute_units}", self.compute_units != 1
        for side, datatype in zip(("input", "output"), self.datatypes, strict=True):
            yield f"--{side}-datatype {datatype}", bool(datatype)
        yield f"--name {self.name}", bool(self.name)


def find_host_model(model: str, zoo_yaml: object, zoo: Path = ZOO) -> HostModel | None:
    """Return the zoo folder of a model whose YAML names a backend, or None.

    Args:
        zoo_yaml: the result of read_zoo_yaml(model).
    """
    if not isinstance(zoo_yaml, dict) or "backend" not in zoo_yaml:
        return None
    backend, because = zoo_yaml["backend"], zoo_yaml["because"]
    networks = zoo_yaml.get("networks", {})
    return HostModel(zoo_yaml["name"], backend, because, zoo_yaml.get("events", ""), networks, zoo / model / "repository")


def build_on_host(model: HostModel, repository: Path, options: KernelOptions, progress: Progress) -> Path:
    """Publish a zoo model that runs on the host, and the models that it consists of; return its version's directory.

    If the newest version has exactly these files, it is returned.

    Raises OnHostError for options that only a kernel can have (a card, a core, compute units, datatypes), and PublishError.

    Args:
        progress: called with one line per step, first with the reason why there is no kernel.
    """
    if refused := [option for option, given in options.list_given() if given]:
        raise OnHostError(f"{model.line}; there is no kernel for {', '.join(refused)}: leave it out")
    check_repository(repository)
    progress(model.line)
    names = sorted((path.name for path in model.repository.iterdir()), key=lambda name: (name == model.name, name))
    return [_publish(model, name, repository, progress) for name in names][-1]


def _publish(host_model: HostModel, model: str, repository: Path, progress: Progress) -> Path:
    folder = host_model.repository / model
    files = _read_files(folder / _VERSION)
    if model in host_model.networks:
        files[MODEL] = _write_network(host_model.networks[model])
    present = versions(repository, model)
    newest = repository / model / str(present[-1]) if present else None
    if newest and (newest.parent / FILE_NAME).is_file() and _read_files(newest) == files:
        return newest
    progress(f"publishing {model} in {repository}")
    return publish_files(repository, model, files, _read_files(folder))


def _read_files(directory: Path) -> dict[str, bytes]:
    """The contents of a directory's files by name; empty if there is no such directory."""
    return (
        {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()} if directory.is_dir() else {}
    )


def _write_network(reference: str) -> bytes:
    module, _, function = reference.partition(":")
    try:
        content: bytes = getattr(import_module(module), function)()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "onnx":
            raise
        raise OnHostError(
            f"the network {reference} is written with the package onnx, which is not installed: {pip_install('build')}"
        ) from error
    return content
