# SPDX-License-Identifier: Apache-2.0
"""A metric: a gauge of the server's open ports."""

from __future__ import annotations

from tests.house.lists.change import Change

_TEXT = "Front ends of the server with a port"
_ROW = "| `hypersonic_streams` | gauge | | Open ModelStreamInfer streams |\n"
_READY = '    yield plain("hypersonic_ready", "gauge", "1 while the server is ready", service.ready)\n'

_CHECK = """\
import tempfile, urllib.request
from pathlib import Path
from tests.server.conftest import serving

with tempfile.TemporaryDirectory() as models, serving(Path(models))() as running:
    page = urllib.request.urlopen(running.metrics).read().decode()
assert "hypersonic_front_ends 3\\n" in page, page
"""

CHANGE = Change(
    section="A metric",
    new={},
    edits={
        "server/observe/metrics/traffic.py": [
            (_READY, f'{_READY}    yield plain("hypersonic_front_ends", "gauge", "{_TEXT}", len(service.ports))\n'),
        ],
        "docs/metrics.md": [(_ROW, f"{_ROW}| `hypersonic_front_ends` | gauge | | {_TEXT} |\n")],
    },
    unneeded={
        "server/observe/metrics/models.py": "it is none of a model",
        "server/observe/metrics/device.py": "it is none of a card",
        "server/statistics/": "it counts nothing",
        "server/observe/facts.py": "it is none of a model or a card",
        "deploy/prometheus/rules.yml": "it raises no alert",
    },
    check=_CHECK,
    tests=("tests/server/observe/metrics/test_metrics_page.py",),
)
