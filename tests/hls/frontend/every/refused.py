# SPDX-License-Identifier: Apache-2.0
"""The form that a refusal of a layer has: a sentence about the layer that says what to do."""

from __future__ import annotations

import re

_EXCEPTION = re.compile(r"\b[A-Z]\w*(Error|Exception|Warning)\b|\bException:|Traceback|NoneType|object has no attribute")
#: a sentence that says what to do, or what was expected
_REMEDY = re.compile(r"; |expected|use |build it|export")


def check_refusals(said: dict[str, str], *, named: bool = True) -> tuple[dict[str, str], int]:
    """Check the form of what was said of each layer; return the refusals, and of how many layers no model was made.

    named: each refusal names the layer, which is called `mine`, or its class.
    """
    refused = {name: text for name, text in said.items() if text and not text.startswith("not made: ")}
    assert not {name: text for name, text in refused.items() if text.startswith("not refused: ")}
    assert not {name: text for name, text in refused.items() if _EXCEPTION.search(text)}
    assert not {name: text for name, text in refused.items() if "please report" in text or not _REMEDY.search(text)}
    unnamed = {name: text for name, text in refused.items() if "mine" not in text and name.lower() not in text.lower()}
    assert not (named and unnamed)
    return refused, sum(text.startswith("not made: ") for text in said.values())
