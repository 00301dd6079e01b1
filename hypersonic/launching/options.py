# SPDX-License-Identifier: Apache-2.0
"""The command line of CMSSW's script cmsTriton (HeterogeneousCore/SonicTriton/scripts/cmsTriton)."""

from __future__ import annotations

import getopt
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypersonic.hls.near import did_you_mean

OPERATIONS = ("start", "stop", "check")
#: the container programs that -d accepts
CONTAINERS = ("apptainer", "docker", "podman", "podman-hpc")
_LETTERS = "cC:d:DE:fg:hi:I:LM:m:n:P:p:r:s:t:vw:"

USAGE = """\
usage: hypersonic-cmsTriton [options] start | stop | check

Takes the options of CMSSW's cmsTriton, and starts `hypersonic serve` on this host's loopback interface.

  -c        keep the temporary directory
  -C DIR    no effect: there are no GPU drivers to be compatible with
  -D        dry run: print the command of the server and start nothing
  -d NAME   container program: apptainer, docker, podman or podman-hpc; used only with -i or -s
  -E PATH   no effect
  -f        start: stop a server of the same name first; stop: succeed without a server
  -g NAME   device: auto or cpu; gpu is refused
  -i IMAGE  run the server in this container image (default: without a container)
  -I N      no effect: each model's config.pbtxt says how many instances it has
  -L        load all models at start (default: clients load the models that they need)
  -M DIR    model repository; may be given several times
  -m DIR    directory of a model; its repository is served; may be given several times
  -n NAME   name of the server (default: triton_server_instance)
  -P PORT   ports PORT (HTTP), PORT+1 (gRPC) and PORT+2 (metrics); -1: any free ones (default: 8000)
  -p PID    stop the server when this process has ended; -1: the parent of this process
  -r N      tries to start a container (default: 3)
  -s DIR    run the server in this unpacked image, with apptainer
  -t DIR    temporary directory (default: .NAME in the working directory)
  -v        start: log debug messages; stop: keep the server's log in the working directory
  -w S      most seconds to wait for the start (default: 600)
  -h        print this text

HYPERSONIC_OPTIONS: further options of `hypersonic serve`.
"""


class UsageError(Exception):
    """The command line cannot be used. The message says what was expected."""


@dataclass(frozen=True)
class Options:
    """The parsed command line.

    Attributes:
        port: None for any free ones.
        watched: the process whose end stops the server, or 0.
    """

    operation: str
    directory: Path
    name: str = "triton_server_instance"
    repositories: tuple[Path, ...] = ()
    port: int | None = 8000
    watched: int = 0
    container: str = ""
    image: str = ""
    load_all: bool = False
    keep: bool = False
    dry_run: bool = False
    force: bool = False
    verbose: bool = False
    tries: int = 3
    wait_s: int = 600
    notes: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """The server's log, where CMSSW looks for it."""
        return self.directory / f"log_{self.name}.log"


def parse(argv: Sequence[str]) -> Options | None:
    """Parse the command line; None for -h. Raises UsageError."""
    try:
        pairs, words = getopt.getopt(list(argv), _LETTERS)
    except getopt.GetoptError as error:
        raise UsageError(str(error)) from error
    given = {letter.lstrip("-"): value for letter, value in pairs}
    if "h" in given:
        return None
    if len(words) != 1 or words[0] not in OPERATIONS:
        raise UsageError(f"the operation is {' '.join(words)!r}, expected start, stop or check after the options")
    name = given.get("n", Options.name)
    if not name or "/" in name:
        raise UsageError(f"-n is {name!r}, expected a name without slashes")
    image = given.get("s") or given.get("i") or ""
    return Options(
        operation=words[0],
        directory=Path(given.get("t") or f".{name}").absolute(),
        name=name,
        # TritonService gives stop the options of start: a model that was removed since then must not keep the server running
        repositories=_repositories(pairs) if words[0] != "stop" else (),
        port=_port(given.get("P", "8000")),
        watched=_watched(given.get("p", "0")),
        container=_container(given) if image else "",
        image=image,
        load_all="L" in given,
        keep="c" in given,
        dry_run="D" in given,
        force="f" in given,
        verbose="v" in given,
        tries=max(1, _number("r", given.get("r", "3"))),
        wait_s=_number("w", given.get("w", "600")),
        notes=tuple(_notes(given)),
    )


def _number(letter: str, text: str, least: int = 0) -> int:
    if text.removeprefix("-").isdecimal() and int(text) >= least:
        return int(text)
    raise UsageError(f"-{letter} is {text!r}, expected a number of at least {least}")


def _port(text: str) -> int | None:
    port = _number("P", text, -1)
    if port == -1:
        return None
    if not 0 < port <= 65533:
        raise UsageError(f"-P is {text!r}, expected the first of three ports, 1 to 65533, or -1 for any free ones")
    return port


def _watched(text: str) -> int:
    process = _number("p", text, -1)
    return os.getppid() if process == -1 else process


def _container(given: dict[str, str]) -> str:
    name = given.get("d", CONTAINERS[0])
    if name not in CONTAINERS:
        raise UsageError(f"-d is {name!r}, expected one of {', '.join(CONTAINERS)}")
    if given.get("s") and name != CONTAINERS[0]:
        raise UsageError(f"-s is an unpacked image, which {name} does not run; use -d apptainer, or -i IMAGE")
    return name


def _repositories(pairs: Sequence[tuple[str, str]]) -> tuple[Path, ...]:
    """Return the repositories in the order given, each once. A model may be named by its directory or by a file in it."""
    found = []
    for letter, value in pairs:
        if letter not in {"-M", "-m"}:
            continue
        path = Path(value).resolve()
        if not (path.is_dir() or (letter == "-m" and path.is_file())):
            raise UsageError(f"{letter} is {value!r}, which is not a directory{_near(path)}")
        if letter == "-m":
            path = (path.parent if path.is_file() else path).parent
        found.append(path)
    return tuple(dict.fromkeys(found))


def _near(path: Path) -> str:
    """Return a question that suggests an existing name close to the first missing part of the path; "" if there is none."""
    while not path.parent.is_dir():
        path = path.parent
    with suppress(OSError):
        return did_you_mean(path.name, [each.name for each in path.parent.iterdir() if each.name != path.name])
    return ""


def _notes(given: dict[str, str]) -> list[str]:
    """Return a line for each option that has no effect. Raises UsageError for -g gpu."""
    device = given.get("g", "auto")
    if device not in {"auto", "cpu"}:
        raise UsageError(
            f"-g is {device!r}, expected auto or cpu: this server uses no GPU, and with gpu CMSSW sends its inputs in CUDA "
            "memory. Cards are used with auto and cpu"
        )
    reasons = {"C": "no GPU is used", "E": "it is not needed", "I": "instances are set in each model's config.pbtxt"}
    notes = [f"-{letter} has no effect: {why}" for letter, why in reasons.items() if given.get(letter, "0") != "0"]
    if "d" in given and not (given.get("i") or given.get("s")):
        notes.append(f"-d {given['d']} has no effect without -i or -s: the server runs without a container")
    return notes
