# SPDX-License-Identifier: Apache-2.0
"""No room left, wherever the server writes: files of a load request, traces, the log, memory shared with models' processes.

/dev/full is a disk that has no room at all; a limit on the size of files (RLIMIT_FSIZE) is one that has some, also for files in
memory.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.faults.site import X, infer, others, site, write_site
from tests.server.python_models import DOUBLE, source, write_python

MEGABYTE = 1 << 20
LIMITS = f"--fsize={2 * MEGABYTE}"
#: as many floats in and out as the request says: x = [floats out, ...]
WIDE = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def files_of(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def written(scratch: Path) -> set[str]:
    """Return the names of the server's files in the directory for temporary files, without those of libraries."""
    return {name for name in files_of(scratch) if name.startswith("hypersonic")}


def test_a_load_with_files_that_do_not_fit_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    repository = write_site(tmp_path / "models")
    before = files_of(repository)
    (scratch := tmp_path / "tmp").mkdir()
    options = ("--model-control-mode=explicit", "--load-model=*", "--allow-python-override=true")
    config = json.dumps({"backend": "python", "max_batch_size": 8, **_tensors()})
    small, large = source(DOUBLE.replace("2 *", "5 *")).encode(), b"#" * (3 * MEGABYTE)
    refusal = "failed to store the load request's files: File too large"
    with site(repository, *options, environment={"TMPDIR": str(scratch)}, limits=LIMITS) as running:
        with others(running) as clients, running.client() as client:
            for name in ("double", "brought"):  # one that is loaded and one that is not there
                with pytest.raises(InferenceServerException, match=refusal) as no:
                    client.load_model(name, config=config, files={"file:1/model.py": small, "file:1/weights.bin": large})
                assert no.value.status() == "StatusCode.INTERNAL"
            assert not written(scratch)
            np.testing.assert_array_equal(infer(client, "double", X), 2 * X)
            assert {m.name for m in client.get_model_repository_index().models if m.state == "READY"} >= {"double", "six"}
            clients.more(10)
            client.load_model("brought", config=config, files={"file:1/model.py": small})
            np.testing.assert_array_equal(infer(client, "brought", X), 5 * X)
            assert files_of(repository) == before
        assert refusal in running.program.log
        assert running.program.stop() == 0
    assert not written(scratch)


def _tensors() -> dict[str, object]:
    return {side: [{"name": name, "data_type": "TYPE_FP32", "dims": [3]}] for side, name in (("input", "x"), ("output", "y"))}


def test_a_load_over_http_is_refused_in_the_same_words(tmp_path: Path) -> None:
    write_python(tmp_path / "models", "m", source(DOUBLE))
    (scratch := tmp_path / "tmp").mkdir()
    files = {"file:1/model.py": base64.b64encode(b"#" * (3 * MEGABYTE)).decode()}
    body = json.dumps({"parameters": {"config": json.dumps({"backend": "python", **_tensors()}), **files}}).encode()
    options = ("--model-control-mode=explicit", "--allow-python-override=true")
    with site(tmp_path / "models", *options, environment={"TMPDIR": str(scratch)}, limits=LIMITS) as running:
        url = f"http://{running.program.ports['HTTPService']}/v2/repository/models/m/load"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, body, timeout=60)
        with refused.value as error:
            assert "failed to store the load request's files: File too large" in json.load(error)["error"]
    assert not written(scratch)


def test_traces_and_the_log_on_a_full_disk_cost_no_request(tmp_path: Path) -> None:
    options = ("--trace-config=triton,file=/dev/full", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1")
    with site(write_site(tmp_path / "models"), *options) as running:
        with others(running) as clients:
            clients.more(30)
        assert running.program.stop() == 0
    lines = [line for line in running.program.lines if "trace file /dev/full" in line and "traces are lost" in line]
    assert len(lines) == 1
    assert "No space left on device" in lines[0]


def test_a_request_whose_tensors_find_no_shared_memory_fails_alone(tmp_path: Path) -> None:
    repository = write_site(tmp_path / "models")
    write_python(repository, "wide", source("return [y(np.ones(int(x_of(r)[0]), np.float32)) for r in requests]"), WIDE)
    with site(repository, limits=LIMITS) as running, others(running) as clients, running.client() as client:
        few, many = 10, MEGABYTE
        for floats_in, floats_out in ((many, few), (few, many), (many, few)):
            with pytest.raises(
                InferenceServerException, match=r"no shared memory for the 4194304 bytes .*: File too large"
            ) as no:
                infer(client, "wide", np.full(floats_in, floats_out, np.float32))
            assert no.value.status() == "StatusCode.INTERNAL"
            clients.more(5)
            np.testing.assert_array_equal(infer(client, "wide", np.full(few, few, np.float32)), np.ones(few, np.float32))
        figures = running.metrics()
    failures = {name: value for name, value in figures.items() if "request_failure" in name and 'model="wide"' in name}
    assert sum(failures.values()) == 3
    assert "no shared memory for the 4194304 bytes" in running.program.log
    assert "out of service" not in running.program.log


def test_a_log_on_a_full_disk_costs_no_request_and_its_lines_come_on_standard_error(tmp_path: Path) -> None:
    with site(write_site(tmp_path / "models"), "--log-file=/dev/full") as running:
        with others(running) as clients:
            clients.more(30)
        assert running.program.stop() == 0
    reasons = [line for line in running.program.lines if line.startswith("log file")]
    text = "log file /dev/full cannot be written: No space left on device; its lines follow here until it can"
    assert reasons == running.program.lines[:1] == [text]
    assert "All requests are answered and all models unloaded." in running.program.lines[-1]
