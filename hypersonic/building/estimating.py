# SPDX-License-Identifier: Apache-2.0
"""The estimate of a build's resources, and how a build uses it.

Yosys needs minutes for a large kernel, and an emulated card does not need the estimate. So a model for emulation is published
first, and the estimate is added to its manifest. Place and route take hours, so they wait for the estimate, which may refuse
the design.

The estimate is made in a separate process. Ctrl-C and a failed build end this process and its tools::

    python -m hypersonic.building.estimating WANTED MADE
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypersonic.building.converted import Converted
from hypersonic.building.linking import Linked, kernels_of, publish_models
from hypersonic.building.request import Progress
from hypersonic.firmware.errors import ManifestError, ResourceError
from hypersonic.firmware.estimate.kernel import step_of
from hypersonic.firmware.estimate.report import BuildReport, Estimates, Missing, make_estimates, no_estimates
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.publish.repository import add_resources
from hypersonic.hls.bounded.processes import end, find
from hypersonic.hls.child import ended, python_argv, python_environment
from hypersonic.hls.resources import Amounts

#: added to the niceness of Yosys, so that Verilator and g++, which the model waits for, get the processors first
_NICENESS = 10

#: makes the report of a build from its estimates
Report = Callable[[Estimates], BuildReport]


def publish_estimated(
    repository: Path,
    models: Sequence[Converted],
    make: Callable[[], Linked],
    report: Report,
    on_resources: Callable[[list[str]], None],
    on_gate: Progress,
) -> list[Path]:
    """Publish the models as publish_models does, with the estimate of their resources.

    For an emulated card the models are published anyway, with a warning on standard error.

    Args:
        on_resources: called with the lines of the estimate.

    Raises:
        ResourceError: Before place and route, for a design that does not fit the card.
    """
    request = models[0].request
    for model in models:
        request.progress(step_of(model.project.name))
    with estimating(kernels_of(models), request.platform) as estimated:
        if request.target.emulated:
            versions = publish_models(repository, models, make, on_gate)
            for version in versions:
                request.progress(f"published {version}: a server can load it; the estimate of its resources follows")
        built = report(estimated())
        on_resources(built.lines)
        if not request.target.emulated:
            if built.misfit:
                raise ResourceError(built.misfit)
            reported = [model.with_report({"resources": built.entries[model.project.name]}) for model in models]
            versions = publish_models(repository, reported, make, on_gate)
    if built.misfit:
        sys.stderr.write(f"hypersonic: warning: {built.misfit}; it is published for emulation, target hw refuses it\n")
    for model, version in zip(models, versions, strict=True):
        _add(version, built, model.project.name)
    return versions


def refuse(known: BuildReport, model: Converted, on_resources: Callable[[list[str]], None]) -> None:
    """Raise ResourceError for a design that does not fit the card according to what is known without Yosys."""
    on_resources(known.lines)
    emulated = "; with --no-resources it can still be emulated" if model.request.target.emulated else ""
    raise ResourceError(f"{known.misfit}{emulated}")


def unit_amounts(kernel: Kernel, platform: Platform, progress: Progress) -> Amounts | None:
    """Return the estimated resources of one compute unit; None, with a line to `progress`, if there is no estimate."""
    progress(step_of(kernel.name))
    with estimating([(kernel, 1)], platform) as estimated:
        report = estimated().kernels[kernel.name]
    if isinstance(report, Missing):
        progress(report.line)
        return None
    return report.top.total


@contextmanager
def estimating(kernels: Sequence[tuple[Kernel, int]], platform: Platform) -> Iterator[Callable[[], Estimates]]:
    """Make the estimates in a separate process while the body runs; yield a function that waits for them.

    If the body raises, Ctrl-C included, the process and its tools are ended.

    Args:
        kernels: each with its number of compute units.
    """
    with tempfile.TemporaryDirectory(prefix="hypersonic-estimate-") as scratch:
        wanted, made = Path(scratch) / "wanted", Path(scratch) / "made"
        wanted.write_bytes(pickle.dumps((kernels, platform)))
        argv = python_argv("-m", "hypersonic.building.estimating", str(wanted), str(made))
        with (Path(scratch) / "errors").open("w+b") as errors, subprocess.Popen(
            argv, env=python_environment(), process_group=0, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        ) as process:  # fmt: skip
            root = find(process.pid)

            def wait() -> Estimates:
                if (code := process.wait()) == 0:
                    return _read(made)
                errors.seek(0)
                last = ended(code, errors.read().decode(errors="replace").splitlines()).last
                return no_estimates(kernels, f"its process ended with {code} ({last})")

            try:
                yield wait
            except BaseException:
                if root:
                    end(root)
                raise


def _read(made: Path) -> Estimates:
    estimates = pickle.loads(made.read_bytes())  # noqa: S301 - our own child wrote it into a directory of this user alone
    assert isinstance(estimates, Estimates)
    return estimates


def _add(version: Path, built: BuildReport, kernel: str) -> None:
    try:
        add_resources(version, built.entries[kernel])
    except (ManifestError, OSError) as error:
        sys.stderr.write(f"hypersonic: note: the estimate of resources is not in {version}: {error}\n")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that unfinished files are removed
    os.nice(_NICENESS)
    Path(sys.argv[2]).write_bytes(pickle.dumps(make_estimates(*pickle.loads(Path(sys.argv[1]).read_bytes()))))  # noqa: S301
