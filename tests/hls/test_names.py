# SPDX-License-Identifier: Apache-2.0
"""Identifiers of a scope, from names that nobody checked."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.hls.names import KEYWORDS, Namespace
from tests.hls.frontend.layer_names import NAMES

FORMS = ("{}_tvalid", "u_{}", "{}_w_tvalid", "{}")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NAMES | st.text(max_size=200), max_size=20))
def test_every_form_of_every_identifier_is_given_once_whatever_the_names(names: list[str]) -> None:
    scope = Namespace(["clk", "u_clk"])
    forms_given = [
        form.format(identifiers) for name in names for identifiers in (scope.identifier(name, FORMS),) for form in FORMS
    ]
    assert len({*(one.lower() for one in forms_given), "clk", "u_clk"}) == len(forms_given) + 2
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", one) and len(one) < 120 for one in forms_given)
    assert not KEYWORDS.intersection(forms_given)


def test_a_legal_name_that_is_free_stays_as_it_is() -> None:
    scope = Namespace()
    assert [scope.identifier(name) for name in ("conv2d", "conv2d_1", "conv2d", "Conv2D")] == [
        "conv2d", "conv2d_1", "conv2d_2", "Conv2D_3",
    ]  # fmt: skip
