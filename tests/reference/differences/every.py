# SPDX-License-Identifier: Apache-2.0
"""Every difference that stays, by subject; docs/coming-from-triton.md has these tables."""

from __future__ import annotations

from tests.reference.difference import Difference, Subjects
from tests.reference.differences.control import CONTROL
from tests.reference.differences.http import HTTP
from tests.reference.differences.models import MODELS
from tests.reference.differences.requests import REQUESTS
from tests.reference.differences.scheduling import SCHEDULING
from tests.reference.differences.settings import SETTINGS

SUBJECTS: Subjects = {
    "Requests and answers": REQUESTS,
    "HTTP and JSON": HTTP,
    "Models": MODELS,
    "Scheduling and statistics": SCHEDULING,
    "Configuration and model control": CONTROL,
    "Shared memory and settings": SETTINGS,
}
DIFFERENCES: tuple[Difference, ...] = tuple(row for rows in SUBJECTS.values() for row in rows)
#: options of tritonserver that are refused here, since they would promise what is not there
REFUSED_OPTIONS = (
    "--allow-sagemaker=true", "--allow-vertex-ai=true", "--model-namespacing=true", "--model-config-name=NAME",
)  # fmt: skip
