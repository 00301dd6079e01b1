# SPDX-License-Identifier: Apache-2.0
"""The HTTP front end, request by request: status, the headers a client reads, body."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

from tests.reference.cases.infer import Case
from tests.reference.wire import Reply, Wire, texts

_ADDSUB = "/v2/models/addsub/infer"
_ROW = [float(i) for i in range(16)]


def addsub(**more: Any) -> dict[str, Any]:
    """A good request in JSON."""
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": _ROW} for name in ("INPUT0", "INPUT1")]
    return {"inputs": inputs} | more


def inputs(name: str, datatype: str, shape: list[int], data: Any, **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": data}]} | more


def binary(header: Any, *tensors: bytes) -> tuple[bytes, dict[str, str]]:
    """A body with binary tensors after its JSON, and its headers."""
    text = json.dumps(header).encode()
    return text + b"".join(tensors), {"Inference_Header_Content_Length": str(len(text))}


def cases() -> dict[str, Case]:
    """All of them, by name."""
    rows = _pages() | _inference() | _values() | _binary() | _packed() | _texts()
    asked = {f"HTTP {name}": _ask(*row) for name, row in rows.items()}
    types = {"nothing": "/v2/health/live", "no such page": "/v2/nothing", "an unknown model": "/v2/models/nope"}
    return asked | {f"HTTP content type of {what}": _type_of(path) for what, path in types.items()}


Row = tuple[Any, ...]


def _type_of(path: str) -> Case:
    return lambda wire: wire.http("GET", path).headers.get("content-type")


def _ask(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Case:
    def ask(wire: Wire) -> Any:
        return shown(wire.http(method, path, body, **(headers or {})))

    return ask


def shown(reply: Reply) -> Any:
    """The parts of a reply that are compared."""
    body = reply.body
    if isinstance(body, dict) and "version" in body and "extensions" in body:
        body = {**body, "version": bool(body["version"])}
    if isinstance(body, list):
        body = sorted(map(str, body))
    kept = [
        "inference-header-content-length",
        "content-encoding",
        *(["content-type"] if reply.status == 200 and body != b"" else []),
    ]
    return reply.status, {key: reply.headers[key] for key in kept if key in reply.headers}, body


def _pages() -> dict[str, Row]:
    paths = (
        "/v2", "/v2/", "/v2/health/live", "/v2/health/ready", "/v2/models/addsub", "/v2/models/addsub/", "/v2/models/addsub/versions/1",
        "/v2/models/addsub/versions/2", "/v2/models/addsub/versions/x", "/v2/models/addsub/versions/", "/v2/models/addsub/ready",
        "/v2/models/addsub/versions/1/ready", "/v2/models/addsub/versions/2/ready", "/v2/models/nope/ready", "/v2/models/nope",
        "/v2/models/addsub/config", "/v2/models/addsub/versions/1/config", "/v2/models/nope/config", "/v2/models/nope/stats",
        "/v2/models/addsub/versions/2/stats", "/v2/models", "/v2/nothing", "/v3", "/v2/health", "/v2/health/other", "/v2/models/addsub/nothing",
        "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/r/status", "/v2/cudasharedmemory/status", "/v2/trace/setting",
        "/v2/models/addsub/trace/setting", "/v2/models/nope/trace/setting", "/v2/logging", "/v2/models/direct/config", "/v2/models/chain/config",
        "/v2/models/priority/config", "/v2/models/identity", "/v2/models/versions", "/v2/repository/index",
    )  # fmt: skip
    rows: dict[str, Row] = {f"GET {path}": ("GET", path) for path in paths}
    posts: dict[str, Any] = {
        "/v2/repository/index": None, "/v2/repository/models/addsub/load": None, "/v2/repository/models/addsub/unload": None,
        "/v2/systemsharedmemory/unregister": None, "/v2/systemsharedmemory/region/r/unregister": None,
        "/v2/cudasharedmemory/unregister": None, "/v2": None, "/v2/models/addsub": None, "/v2/health/live": None, "/v2/models/addsub/stats": None,
    }  # fmt: skip
    rows |= {f"POST {path}": ("POST", path, body) for path, body in posts.items()}
    rows |= {
        "index of what is ready": ("POST", "/v2/repository/index", {"ready": True}),
        "index, ready is not a boolean": ("POST", "/v2/repository/index", {"ready": "x"}),
        "index, not JSON": ("POST", "/v2/repository/index", b"{"),
        "register what is not there": ("POST", "/v2/systemsharedmemory/region/r/register", {"key": "/no_such_segment", "offset": 0, "byte_size": 64}),
        "register without a key": ("POST", "/v2/systemsharedmemory/region/r/register", {"byte_size": 64}),
        "register without a size": ("POST", "/v2/systemsharedmemory/region/r/register", {"key": "/k"}),
        "register, not JSON": ("POST", "/v2/systemsharedmemory/region/r/register", b"x"),
        "PUT": ("PUT", _ADDSUB, addsub()), "DELETE": ("DELETE", _ADDSUB), "infer by GET": ("GET", _ADDSUB),
    }  # fmt: skip
    return rows


def _inference() -> dict[str, Row]:
    def post(body: Any, path: str = _ADDSUB) -> Row:
        return "POST", path, body

    first, second = addsub()["inputs"]
    return {
        "infer": post(addsub()),
        "infer with an id": post(addsub(id="an id")),
        "infer, version given": post(addsub(), "/v2/models/addsub/versions/1/infer"),
        "infer, unknown version": post(addsub(), "/v2/models/addsub/versions/2/infer"),
        "infer, version no number": post(addsub(), "/v2/models/addsub/versions/x/infer"),
        "infer, unknown model": post(addsub(), "/v2/models/nope/infer"),
        "infer, one output": post(addsub(outputs=[{"name": "OUTPUT1"}])),
        "infer, binary answer": post(addsub(outputs=[{"name": "OUTPUT1", "parameters": {"binary_data": True}}, {"name": "OUTPUT0"}])),
        "infer, all answers binary": post(addsub(parameters={"binary_data_output": True})),
        "infer, all binary but one": post(
            addsub(parameters={"binary_data_output": True}, outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": False}}, {"name": "OUTPUT1"}])
        ),
        "infer, unknown output": post(addsub(outputs=[{"name": "nope"}])),
        "infer, output twice": post(addsub(outputs=[{"name": "OUTPUT0"}] * 2)),
        "infer, classes": post(addsub(outputs=[{"name": "OUTPUT0", "parameters": {"classification": 2}}])),
        "infer, output without a name": post(addsub(outputs=[{}])),
        "infer, outputs no list": post(addsub(outputs={})),
        "infer, no inputs": post({"inputs": []}),
        "infer, inputs left out": post({}),
        "infer, inputs no list": post({"inputs": 3}),
        "infer, input no object": post({"inputs": [3]}),
        "infer, one input": post({"inputs": [first]}, _ADDSUB),
        "infer, input twice": post({"inputs": [first, first]}),
        "infer, unknown input": post({"inputs": [{**first, "name": "nope"}, second]}),
        **{f"infer, no {key}": post({"inputs": [{k: v for k, v in first.items() if k != key}, second]}) for key in first},
        "infer, shape no list": post({"inputs": [{**first, "shape": 16}, second]}),
        "infer, shape of texts": post({"inputs": [{**first, "shape": ["1", "16"]}, second]}),
        "infer, negative shape": post({"inputs": [{**first, "shape": [1, -16]}, second]}),
        "infer, wrong shape": post({"inputs": [{**first, "shape": [1, 15]}, {**second, "shape": [1, 15]}]}),
        "infer, wrong datatype": post({"inputs": [{**first, "datatype": "INT32"}, {**second, "datatype": "INT32"}]}),
        "infer, no datatype known": post({"inputs": [{**first, "datatype": "FLOAT"}, second]}),
        "infer, name no text": post({"inputs": [{**first, "name": 3}, second]}),
        "infer, too few values": post({"inputs": [{**first, "data": _ROW[:5]}, second]}),
        "infer, too many values": post({"inputs": [{**first, "data": _ROW * 2}, second]}),
        "infer, values in rows": post({"inputs": [{**first, "data": [_ROW]}, second]}),
        "infer, values nested deeper than the shape": post({"inputs": [{**first, "data": [[[_ROW[:8]], [_ROW[8:]]]]}, second]}),
        "infer, ragged values": post({"inputs": [{**first, "data": [_ROW[:8], _ROW[8:12], _ROW[12:]]}, second]}),
        "infer, values that are texts": post({"inputs": [{**first, "data": ["1"] * 16}, second]}),
        "infer, values that are null": post({"inputs": [{**first, "data": [None] * 16}, second]}),
        "infer, values that are true": post({"inputs": [{**first, "data": [True] * 16}, second]}),
        "infer, integers as values": post({"inputs": [{**first, "data": list(range(16))}, second]}),
        "infer, data no list": post({"inputs": [{**first, "data": 1.0}, second]}),
        "infer, id no text": post(addsub(id=7)),
        "infer, parameters no object": post(addsub(parameters=3)),
        "infer, nothing": post(b""),
        "infer, not JSON": post(b"not json"),
        "infer, a list": post([]),
        "infer, JSON cut off": post(json.dumps(addsub()).encode()[:-5]),
        "infer, unknown region": post({"inputs": [{**{k: v for k, v in first.items() if k != "data"}, "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 64}}, second]}),
        **{
            f"infer, parameter {key}={value!r}": post(inputs("X", "FP32", [1], [1.0], parameters={key: value}), "/v2/models/parameters/infer")
            for key, value in (
                ("timeout", 5000000), ("timeout", "5"), ("priority", 5), ("priority", -1), ("sequence_id", 5), ("sequence_id", "five"), ("sequence_start", 1),
                ("triton_foo", 1), ("custom", 1.5), ("custom", 7), ("custom", "text"), ("custom", True), ("custom", None), ("custom", [1]), ("headers", "x"),
            )
        },
        "infer, failing model": post(inputs("WAY", "BYTES", [1, 1], ["error_code"]), "/v2/models/failing/infer"),
        "infer, exception in the model": post(inputs("WAY", "BYTES", [1, 1], ["error_response"]), "/v2/models/failing/infer"),
        "infer, ensemble": post(
            {"inputs": [{"name": n, "datatype": "INT32", "shape": [1, 16], "data": list(range(16))} for n in "AB"]}, "/v2/models/chain/infer"
        ),
    }  # fmt: skip


def _values() -> dict[str, Row]:
    """Datatypes in JSON."""

    def post(name: str, shape: list[int], data: Any) -> Row:
        datatype = "BYTES" if name == "STRING" else name
        return "POST", "/v2/models/identity/infer", inputs(f"IN_{name}", datatype, shape, data)

    rows = {
        f"{name} values": post(name, [3], [0, 1, 1])
        for name in ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "BOOL")
    }
    rows |= {f"{name} values": post(name, [4], [0.5, -1.0, 1e30, 3.0]) for name in ("FP32", "FP64")}
    return rows | {
        "FP16 values": post("FP16", [1], [1.0]), "BF16 values": post("BF16", [1], [1.0]),
        "true and false": post("BOOL", [2], [True, False]), "booleans of 2": post("BOOL", [1], [2]),
        "texts": post("STRING", [3], ["a", "", "\u00e9"]), "text of numbers": post("STRING", [1], [1]), "text with a zero byte": post("STRING", [1], ["a\0b"]),
        "UINT8 300": post("UINT8", [1], [300]), "INT8 -129": post("INT8", [1], [-129]), "UINT32 -1": post("UINT32", [1], [-1]),
        "INT32 2^31": post("INT32", [1], [2**31]), "INT64 2^63": post("INT64", [1], [2**63]), "UINT64 2^63": post("UINT64", [1], [2**63]),
        "INT32 1.5": post("INT32", [1], [1.5]), "FP32 1e39": post("FP32", [1], [1e39]), "FP32 -1e39": post("FP32", [2], [[0], [-1e39]]), "FP32 0.1": post("FP32", [2], [0.1, 1 / 3]), "FP64 0.1": post("FP64", [2], [0.1, 1 / 3]),
        "FP32 whole numbers": post("FP32", [3], [1, 100000000, 1e20]), "no values": post("FP32", [0], []),
    }  # fmt: skip


def _binary() -> dict[str, Row]:
    def described(size: int = 64, **more: Any) -> dict[str, Any]:
        return {
            "inputs": [
                {"name": n, "datatype": "FP32", "shape": [1, 16], "parameters": {"binary_data_size": size}}
                for n in ("INPUT0", "INPUT1")
            ]
        } | more

    def post(header: Any, *tensors: bytes, **headers: str) -> Row:
        body, own = binary(header, *tensors)
        return "POST", _ADDSUB, body, own | headers

    data = bytes(range(64))
    strings = texts(b"ab", b"\xff\0")
    text = {
        "inputs": [{"name": "IN_STRING", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(strings)}}]
    }
    body, own = binary(text, strings)
    return {
        "binary": post(described(), data, data),
        "binary, binary answer": post(described(parameters={"binary_data_output": True}), data, data),
        "binary, too few bytes": post(described(), data, data[:5]),
        "binary, too many bytes": post(described(), data, data, b"x"),
        "binary, no bytes": post(described()),
        "binary, sizes wrong": post(described(60), data[:60], data[:60]),
        "binary, size negative": post(described(-1), data),
        "binary, size a text": post({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "parameters": {"binary_data_size": "64"}}]}, data),
        "binary, header longer than the body": post(described(), data, data, Inference_Header_Content_Length="100000"),
        "binary, header negative": post(described(), data, data, Inference_Header_Content_Length="-1"),
        "binary, header no number": post(described(), data, data, Inference_Header_Content_Length="x"),
        "binary, header empty": post(described(), data, data, Inference_Header_Content_Length=""),
        "binary and data": post({"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": _ROW, "parameters": {"binary_data_size": 64}} for n in ("INPUT0", "INPUT1")]}, data, data),
        "binary texts": ("POST", "/v2/models/identity/infer", body, own),
        "raw, no header": ("POST", "/v2/models/parameters/infer", bytes(4), {"Inference_Header_Content_Length": "0"}),
        "raw, model of two inputs": ("POST", _ADDSUB, bytes(64), {"Inference_Header_Content_Length": "0"}),
        "raw, model with batches": ("POST", "/v2/models/reshaped/infer", bytes(16), {"Inference_Header_Content_Length": "0"}),
        "raw, wrong size": ("POST", "/v2/models/parameters/infer", bytes(3), {"Inference_Header_Content_Length": "0"}),
        "raw, texts that are not UTF-8": ("POST", "/v2/models/identity/infer", {"inputs": [{"name": "IN_STRING", "datatype": "BYTES", "shape": [1], "data": ["\udcff"]}]}),
    }  # fmt: skip


def _packed() -> dict[str, Row]:
    """Content-Encoding both ways."""
    body = json.dumps(addsub()).encode()
    return {
        "gzip": ("POST", _ADDSUB, gzip.compress(body), {"Content_Encoding": "gzip"}),
        "deflate": ("POST", _ADDSUB, zlib.compress(body), {"Content_Encoding": "deflate"}),
        "gzip cut off": ("POST", _ADDSUB, gzip.compress(body)[:-20], {"Content_Encoding": "gzip"}),
        "gzip that is none": ("POST", _ADDSUB, body, {"Content_Encoding": "gzip"}),
        "an unknown encoding": ("POST", _ADDSUB, body, {"Content_Encoding": "br"}),
        "gzip two deep": ("POST", _ADDSUB, gzip.compress(gzip.compress(body)), {"Content_Encoding": "gzip, gzip"}),
    }


def _texts() -> dict[str, Row]:
    """JSON as text: what a parser takes."""
    good = json.dumps(addsub())

    def post(text: str | bytes) -> Row:
        return "POST", _ADDSUB, text.encode() if isinstance(text, str) else text

    def valued(text: str) -> Row:
        return post(good.replace("0.0", text, 1))

    deep = "[" * 99 + "1" + "]" * 99
    return {
        "JSON after a byte order mark": post(b"\xef\xbb\xbf" + good.encode()),
        "JSON in UTF-16": post(good.encode("utf-16")),
        "JSON with more behind it": post(good + "x"),
        "JSON with white space around": post(f" \n\t{good}\r\n "),
        "JSON with a comment": post("/* */" + good),
        "JSON with a comma too many": post(good[:-1] + ",}"),
        "JSON with a key twice": post(good[:-1] + ', "id": "a", "id": "b"}'),
        "JSON with an unknown key": post(good[:-1] + ', "nothing": {"a": [1]}}'),
        "JSON with escapes": post(good.replace("INPUT0", "\\u0049NPUT0")),
        "JSON with half a surrogate": post(good[:-1] + ', "id": "\\ud800"}'),
        "JSON with a control character": post(good[:-1] + ', "id": "a\nb"}'),
        "JSON that is not UTF-8": post(good[:-1].encode() + b', "id": "\xff"}'),
        "JSON 99 deep": post(good[:-1] + f', "nothing": {deep}}}'),
        "JSON 1000 deep": post(good[:-1] + f', "nothing": {"[" * 1000}{"]" * 1000}}}'),
        "value 1e400": valued("1e400"), "value NaN": valued("NaN"), "value Infinity": valued("Infinity"), "value -Inf": valued("-Inf"),
        "value 01": valued("01"), "value .5": valued(".5"), "value 1.": valued("1."), "value +1": valued("+1"), "value -0": valued("-0"),
        "value 1e5": valued("1e5"), "value of 400 digits": valued("1" * 400), "value 0x10": valued("0x10"), "value 1e-400": valued("1e-400"),
        "classes": ("POST", "/v2/models/classes/infer", inputs("X", "FP32", [1, 4], [[1, 3, 2, 0]], outputs=[{"name": "Y", "parameters": {"classification": 2}}])),
        "texts, binary answer": ("POST", "/v2/models/identity/infer", inputs("IN_STRING", "BYTES", [2], ["a", "bc"], outputs=[{"name": "OUT_STRING", "parameters": {"binary_data": True}}])),
        "an optional input left out": ("POST", "/v2/models/optional/infer", inputs("X0", "FP32", [1, 2], [1, 2])),
        "a model without batches": ("POST", "/v2/models/single/infer", inputs("X", "FP32", [2], [1, 2], outputs=[{"name": "Y"}])),
        "a sequence": ("POST", "/v2/models/direct/infer", inputs("X", "INT32", [1, 1], [3], parameters={"sequence_id": 41, "sequence_start": True, "sequence_end": True})),
        "a sequence, not started": ("POST", "/v2/models/direct/infer", inputs("X", "INT32", [1, 1], [3], parameters={"sequence_id": 42})),
        "newest of two versions": ("POST", "/v2/models/versions/infer", addsub()),
        "gzip answer": ("POST", _ADDSUB, addsub(), {"Accept_Encoding": "gzip"}),
        "deflate answer": ("POST", _ADDSUB, addsub(), {"Accept_Encoding": "deflate"}),
        "any answer": ("POST", _ADDSUB, addsub(), {"Accept_Encoding": "*"}),
        "identity answer": ("POST", _ADDSUB, addsub(), {"Accept_Encoding": "identity"}),
        "another content type": ("POST", _ADDSUB, addsub(), {"Content_Type": "text/plain"}),
        "gzip of two members": ("POST", _ADDSUB, gzip.compress(good[:40].encode()) + gzip.compress(good[40:].encode()), {"Content_Encoding": "gzip"}),
        "HEAD": ("HEAD", "/v2/health/live"), "OPTIONS": ("OPTIONS", "/v2/health/live"), "PATCH": ("PATCH", _ADDSUB, addsub()),
        "query": ("GET", "/v2/models/addsub?x=1"), "escaped name": ("GET", "/v2/models/add%73ub"), "path in the name": ("GET", "/v2/models/..%2faddsub"),
        "two slashes": ("GET", "/v2//models/addsub"), "capitals": ("GET", "/V2/models/addsub"),
    }  # fmt: skip
