# SPDX-License-Identifier: Apache-2.0
"""The other parsers of hostile text: config.pbtxt, its JSON form, and the body of an HTTP inference request.

Each input is read or refused with a ServerError; nothing else comes out. The protobuf walk has a fuzzer of its own
(test_messages_fuzz.py), the xclbin reader too (tests/firmware/xclbin/test_container.py).
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.read import parse_config, parse_json_config, read_config
from hypersonic.server.core.inference.check import check, check_counts
from hypersonic.server.errors import ModelConfigError, ServerError
from hypersonic.server.wire.http.codec import header_bytes, parse_request

CONFIG = """
name: "m" backend: "onnxruntime" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ 3 ] } } ]
output [ { name: "y" data_type: TYPE_STRING dims: [ 1 ] label_filename: "labels.txt" } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 priority_levels: 2
  default_priority_level: 1 default_queue_policy { timeout_action: REJECT max_queue_size: 4 } }
instance_group [ { count: 2 kind: KIND_CPU } ]
parameters { key: "k" value { string_value: "v" } }
version_policy { specific { versions: [ 1, 3 ] } }
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1, 3 ] zero_data: true } } }
"""
MODEL = """
name: "m" backend: "python" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "s" data_type: TYPE_STRING dims: [ 1 ] optional: true } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
TOKENS = (
    *("{", "}", "[", "]", "<", ">", ":", ",", ";", '"', "#", "\\", "\n", "\0", "-1", "0", "1e999", "nan", "true"),
    *("TYPE_FP32", "name", "input", "output", "../../etc/passwd"),
    "'", "\x1b[31m", "99999999999999999999", "\u00fc", "sequence_batching { }", "platform: 'ensemble'",
    "ensemble_scheduling { step { model_name: 'm' } }", "batch_input [ { kind: BATCH_ELEMENT_COUNT } ]",
)  # fmt: skip


def damaged(text: str, random: Random) -> str:
    """Tokens put in, pieces cut out, doubled, moved."""
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice((0, 1, 3, 20, 80)))
        piece = random.choice((random.choice(TOKENS), "", text[start:end] * 2, chr(random.randrange(1, 0xD800))))
        text = text[:start] + piece + text[end:]
    return text


def test_a_damaged_config_is_read_or_refused() -> None:
    seen: Counter[bool] = Counter()
    for seed in range(1500):
        text = damaged(CONFIG, Random(seed))
        try:
            check_config(parse_config(text, "m/config.pbtxt"))
            seen[True] += 1
        except ModelConfigError:
            seen[False] += 1
    assert min(seen.values()) > 50, seen


def test_a_damaged_json_config_is_read_or_refused() -> None:
    good = json.dumps({"name": "m", "backend": "python", "max_batch_size": "8", "input": [{"name": "x", "dims": ["1"]}]})
    for seed in range(1500):
        with contextlib.suppress(ModelConfigError):
            check_config(parse_json_config(damaged(good, Random(seed)), "m"))


#: what may stand where JSON has a value
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "y", "FP32", "BYTES", "INT8", "BF16", "\x00", "\ud800", "triton_x", "9" * 5000),
    *([], {}, [[]], [1], [[1, 2], [3]], [None], ["a", 1], [2**62, 2**62], [0, 3], [1] * 70, {"a": {}}),
    *({"binary_data_size": 12}, {"binary_data_size": -1}, {"shared_memory_region": "r"}, {"classification": 2**63}),
)


def document(random: Random) -> dict[str, object]:
    return {
        "id": "q",
        "parameters": {"timeout": 5, "priority": 1, "custom": "c", "sequence_id": 3},
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}},
            {"name": "s", "datatype": "BYTES", "shape": [1, 1], "data": ["text"]},
        ],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }


def replaced(value: object, random: Random) -> object:
    """The same document with one value somewhere in it replaced, or a member added."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice([*value, "parameters", "shared_memory_region", "data", "classification"])
        return {**value, key: replaced(value.get(key), random)}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        return [*value[:at], replaced(value[at], random), *value[at + 1 :]]
    return random.choice(VALUES)


def body(random: Random) -> tuple[bytes, str | None]:
    """(body, Inference-Header-Content-Length)."""
    value: object = document(random)
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        value = replaced(value, random)
    text = json.dumps(value).encode()
    if random.random() < 0.2:
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice((b"", b"\xff", b'"', b"[" * 200, b"1" * 5000)) + text[at + random.randrange(3) :]
    binary = np.arange(3, dtype=np.float32).tobytes()[: random.choice((12, 12, 12, 11, 0))]
    return text + binary, random.choice((str(len(text)), str(len(text)), None, "0", "-1", "9" * 30, "1e3", str(len(text) + 13)))


def test_a_damaged_http_request_is_read_or_refused() -> None:
    config = check_config(parse_config(MODEL, "m/config.pbtxt"))
    seen: Counter[bool] = Counter()
    for seed in range(4000):
        data, length = body(Random(seed))
        try:
            parsed = parse_request(memoryview(data), header_bytes(length, len(data)), config, None, {})
            check(parsed.request, config)
            seen[True] += 1
        except ServerError:
            seen[False] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert min(seen.values()) > 50, seen


@pytest.mark.parametrize("dims", [65, 100_000])
def test_a_shape_of_very_many_dimensions_is_refused_at_once(dims: int) -> None:
    config = check_config(parse_config(MODEL, "m/config.pbtxt"))
    given = {"name": "x", "datatype": "FP32", "shape": [2**63 - 1] * dims, "data": [1.0]}
    data = json.dumps({"inputs": [given]}).encode()
    with pytest.raises(ServerError):
        check_counts(parse_request(memoryview(data), len(data), config, None, {}).request)


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 50_000, '{"inputs": [' + "[" * 101 + "]" * 101 + "]}"])
def test_deep_json_is_refused_before_it_is_parsed(text: str) -> None:
    config = check_config(parse_config(MODEL, "m/config.pbtxt"))
    with pytest.raises(ServerError):
        parse_request(memoryview(text.encode()), len(text), config, None, {})
    with pytest.raises(ModelConfigError):
        parse_json_config(text, "m")


@pytest.mark.parametrize("text", ['\\"' * 500_000, "\\'" * 500_000, '"' * 1_000_000])
def test_quotes_without_an_end_are_refused_in_one_pass(text: str) -> None:
    """Searching for the end of each of them separately would take hours."""
    for parse in (lambda: parse_config(text, "m"), lambda: parse_json_config(text, "m")):
        with pytest.raises(ModelConfigError):
            parse()


def test_a_configuration_is_bounded_before_it_is_parsed(tmp_path: Path) -> None:
    longest = 1 << 20
    (tmp_path / "config.pbtxt").write_text(MODEL + "#" * (longest - len(MODEL)))
    assert read_config(tmp_path / "config.pbtxt", "m").max_batch_size > 0
    (tmp_path / "config.pbtxt").write_text(MODEL + "#" * (longest - len(MODEL) + 1))
    expected = "1048577 bytes, expected at most 1048576: .* into separate files"
    with pytest.raises(ModelConfigError, match=f"m/config.pbtxt has {expected}"):
        read_config(tmp_path / "config.pbtxt", "m")
    with pytest.raises(ModelConfigError, match=f"the configuration of model 'm' has {expected}"):
        parse_json_config("{" + " " * (longest - 1) + "}", "m")
    with pytest.raises(ModelConfigError, match="the configuration of model 'm' has 1200014 bytes"):
        parse_json_config('{"tags": ["' + "\u00e4" * 600_000 + '"]}', "m")


def test_a_configuration_of_very_many_parts_is_refused_before_they_are_made() -> None:
    many = "has more than 32768 bracketed parts"
    with pytest.raises(ModelConfigError, match=f"the configuration of model 'm' {many}"):
        parse_json_config('{"input": [' + ",".join(["{}"] * 33_000) + "]}", "m")
    with pytest.raises(ModelConfigError, match=f"m/config.pbtxt {many}"):
        parse_config("input{}" * 33_000, "m/config.pbtxt")
    assert len(parse_config(MODEL + "metric_tags {}" * 1000, "m").input) == 2
