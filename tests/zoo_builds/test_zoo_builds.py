# SPDX-License-Identifier: Apache-2.0
"""Every model of the zoo, in full size, through `hypersonic build --target hw_emu`. The remarks at the end of the run are a
table: clocks per row, estimated resources, time. What has not changed is in the cache, so a second run takes seconds each."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersonic.building.host_models import find_host_model
from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.hls.frontend.description import read_zoo_yaml, zoo_models
from hypersonic.hls.resources import KINDS, LABELS, NOT_ESTIMATED, Amounts

pytestmark = [pytest.mark.whole, pytest.mark.hours, pytest.mark.timeout(6 * 3600)]


def resources_text(manifest: Manifest) -> str:
    """The estimated resources of a compute unit, or why there are none."""
    entry = manifest.report["resources"]
    if NOT_ESTIMATED in entry:
        return f"not estimated: {entry[NOT_ESTIMATED]}"
    unit = next(iter(entry["modules"].values()))  # the kernel; its modules follow
    amounts = Amounts(**{kind: unit[kind] for kind in KINDS}).texts()
    return ", ".join(f"{amount} {LABELS[kind]}" for kind, amount in zip(KINDS, amounts, strict=True))


@pytest.mark.parametrize("model", zoo_models())
def test_a_model_of_the_zoo_builds_in_full_size_with_its_resources_estimated(
    model: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    begun = time.monotonic()
    argv = python_argv("-m", "hypersonic", "build", model, "--target", "hw_emu", "--model-repository", str(tmp_path / "models"))
    argv += ["--build-directory", str(tmp_path / "build")]
    done = subprocess.run(argv, env=python_environment(), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    assert done.returncode == 0, done.stderr[-4000:]
    version = Path(done.stdout.splitlines()[-1])
    if host := find_host_model(model, read_zoo_yaml(model)):
        record_property("noteworthy", f"on the host, in the backend {host.backend}; {seconds:.0f} s")
        assert version.is_dir()
        return
    manifest = Manifest.read(version / FILE_NAME)
    clocks, core = f"{manifest.ii:,} clocks per row", manifest.core
    record_property("noteworthy", f"core {core}, {clocks}; {resources_text(manifest)}; {seconds:.0f} s")
    assert NOT_ESTIMATED not in manifest.report["resources"], manifest.report["resources"][NOT_ESTIMATED]
