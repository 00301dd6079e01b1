# SPDX-License-Identifier: Apache-2.0
"""gRPC inference requests, one by one: good, odd and refused. A case is a function of a Wire; its value is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.reference.wire import Tensor, Wire, given, message, texts

Case = Callable[[Wire], Any]
_ONE = np.arange(16, dtype=np.float32).reshape(1, 16)
#: datatype, numpy's, elements
PLAIN = {
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16,
    "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BOOL": np.bool_,
}  # fmt: skip
_CONTENTS = {
    "BOOL": "bool_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents",
}  # fmt: skip


def rows(shape: Sequence[int], size_bytes: int = 8, datatype: str = "FP32") -> list[Tensor]:
    """The only input of `plain`, [-1, 2]: so many zero bytes, whatever the shape says."""
    return [Tensor("X", datatype, shape, bytes(size_bytes))]


def good() -> list[Tensor]:
    return [given("INPUT0", _ONE, "FP32"), given("INPUT1", _ONE + 1, "FP32")]


def cases() -> dict[str, Case]:
    """All of them, by name."""
    return {
        name: _sent(request, keywords) for name, request, keywords in (*_named(), *_shaped(), *_filled(), *_marked(), *_typed())
    }


def _sent(request: Any, keywords: dict[str, Any]) -> Case:
    return lambda wire: wire.infer(request, **keywords)


Row = tuple[str, Any, dict[str, Any]]


def _row(name: str, *args: Any, **keywords: Any) -> Row:
    return name, message(*args, **keywords), {}


def _named() -> Iterator[Row]:
    """Models, versions, ids, names of tensors."""
    yield _row("plain request", "addsub", good())
    yield _row("id", "addsub", good(), id="an id")
    yield _row("unknown model", "nope", good(), id="a")
    yield _row("no model name", "", good())
    for version in ("1", "3", "01", " 1", "1x", "0", "-1", "abc", "99999999999999999999", "9223372036854775807"):
        yield _row(f"version {version!r}", "addsub", good(), version=version)
    yield _row("one of two versions", "versions", good(), version="1")
    yield _row("newest of two versions", "versions", good())
    yield _row("version the policy leaves out", "latest", good(), version="1")
    yield _row("one output", "addsub", good(), ["OUTPUT1"])
    yield _row("outputs in the request's order", "addsub", good(), ["OUTPUT1", "OUTPUT0"])
    yield _row("an output twice", "addsub", good(), ["OUTPUT0", "OUTPUT0"])
    yield _row("unknown output", "addsub", good(), ["nope"])
    yield _row("unknown output with an id", "addsub", good(), ["nope"], id="a")
    yield _row("unknown input", "addsub", [given("nope", _ONE, "FP32"), good()[1]])
    yield _row("inputs in another order", "addsub", good()[::-1])
    yield _row("an input twice", "addsub", [good()[0], good()[0]])
    yield _row("no inputs", "addsub")
    yield _row("one input of two", "addsub", good()[:1], id="a")
    yield _row("an input too many", "addsub", [*good(), given("INPUT2", _ONE, "FP32")])
    yield _row("optional input left out", "optional", [given("X0", _ONE[:, :2], "FP32")])
    yield _row("optional input given", "optional", [given("X0", _ONE[:, :2], "FP32"), given("X1", _ONE[:, :2], "FP32")])
    yield _row("required input left out", "optional", [given("X1", _ONE[:, :2], "FP32")])
    yield _row("no input but optional ones", "optional")
    yield _row("three inputs of at most two", "optional", [given(f"X{i}", _ONE[:, :2], "FP32") for i in range(3)])
    yield _row("one optional input twice", "optional", [given("X0", _ONE[:, :2], "FP32")] * 2)
    yield _row("all inputs optional, none given", "identity")
    for name in ("a/b", "../addsub", "addsub\\0", "addsub ", "ADDSUB", "\u00e9", "x" * 1000):
        yield _row(f"model {name[:20]!r}", name, good())
        yield _row(f"input {name[:20]!r}", "addsub", [good()[0], given(name, _ONE, "FP32")])
        yield _row(f"output {name[:20]!r}", "addsub", good(), [name])
    for name in ("\u00e9", "an id\nof two lines", "x" * 5000):
        yield _row(f"id {name[:20]!r}", "addsub", good(), id=name)
        yield _row(f"refused, id {name[:20]!r}", "addsub", good()[:1], id=name)


def _shaped() -> Iterator[Row]:
    """Shapes, batches, datatypes."""
    for shape in ([2], [], [1, 1], [1, 3], [1, 2, 1], [2, 2**62], [1, 0], [1, -2], [-1, -2]):
        yield _row(f"shape {shape}", "plain", rows(shape))
    yield _row("the largest batch", "plain", rows([4, 2], 32), ["Y"])
    yield _row("batch too big", "plain", rows([5, 2], 40))
    yield _row("batch too big with an id", "plain", rows([5, 2], 40), id="a")
    yield _row("batch of no rows", "plain", rows([0, 2], 0))
    yield _row("batch of minus one rows", "plain", rows([-1, 2]))
    yield _row("batch of 2^63 - 1 rows", "plain", rows([2**63 - 1, 2]))
    yield _row("batches that differ", "addsub", [Tensor("INPUT0", "FP32", [2, 16], bytes(128)), good()[1]])
    yield _row("rows that differ in shape", "addsub", [good()[0], Tensor("INPUT1", "FP32", [1, 8], bytes(32))])
    yield _row("two inputs wrong", "addsub", [Tensor(name, "INT32", [1, 16], bytes(64)) for name in ("INPUT0", "INPUT1")])
    for datatype in ("INT32", "FP64", "FOO", "", "fp32", "TYPE_FP32", "BYTES", "BF16"):
        yield _row(f"datatype {datatype!r}", "plain", rows([1, 2], datatype=datatype))
    yield _row("no batch dimension", "single", [given("X", _ONE[0, :2], "FP32")], ["Y"])
    yield _row("batch dimension where there is none", "single", [given("X", _ONE[:, :2], "FP32")])
    yield _row("variable shape", "variable", [given("X", _ONE.reshape(1, 8, 2), "FP32")])
    yield _row("variable shape of no elements", "variable", [Tensor("X", "FP32", [1, 0, 2], b"")])
    yield _row("variable shape, fixed part wrong", "variable", [given("X", _ONE.reshape(1, 4, 4), "FP32")])
    yield _row("variable shape of minus one", "variable", [Tensor("X", "FP32", [1, -1, 2], bytes(8))])
    yield _row("reshaped", "reshaped", [given("X", _ONE[:, :4], "FP32")])
    yield _row("reshaped, but as the model sees it", "reshaped", [given("X", _ONE[:, :4].reshape(1, 2, 2), "FP32")])
    yield _row("reshaped to a scalar", "scalar", [given("X", _ONE[:, :1], "FP32")])


def _filled() -> Iterator[Row]:
    """Contents: how many bytes, where they lie."""
    for size in (0, 5, 7, 9, 16):
        yield _row(f"{size} bytes of 8", "plain", rows([1, 2], size))
    yield _row("no contents", "addsub", [t._replace(data=None) for t in good()])
    yield _row("contents of one input of two", "addsub", [good()[0], good()[1]._replace(data=None)])
    yield _row("more raw contents than inputs", "addsub", good(), extra=[bytes(64)])
    yield _row("raw and typed", "addsub", [good()[0]._replace(typed=("fp32_contents", [1.0])), good()[1]])
    yield _row("typed in the wrong field", "addsub", [t._replace(data=None, typed=("int_contents", [1] * 16)) for t in good()])
    for count in (0, 1, 2, 3):
        tensors = [Tensor("X", "FP32", [1, 2], None, ("fp32_contents", [1.0] * count))]
        yield _row(f"{count} typed values of 2", "plain", tensors, ["Y"])
    for name, data in (
        ("strings", texts(b"12", b"")), ("string of zero bytes", texts(b"\0", b"\0\0")), ("too few strings", texts(b"a")),
        ("too many strings", texts(b"a", b"b", b"c")), ("string cut off", texts(b"a", b"bcd")[:-1]), ("string length cut off", texts(b"a") + b"\1\0"),
        ("string longer than the data", b"\xff\xff\xff\xff"), ("no string data", b""),
    ):  # fmt: skip
        yield _row(name, "identity", [Tensor("IN_STRING", "BYTES", [2], data)], id="s")
    yield _row("no strings", "identity", [Tensor("IN_STRING", "BYTES", [0], b"")])
    yield _row(
        "strings of two dimensions",
        "addsub_string",
        [Tensor(n, "BYTES", [2, 16], texts(*[b"3"] * 32)) for n in ("INPUT0", "INPUT1")],
    )
    yield _row("a string of a megabyte", "identity", [Tensor("IN_STRING", "BYTES", [1], texts(b"ab" * 500_000))])
    yield _row(
        "two datatypes at once",
        "identity",
        [Tensor("IN_STRING", "BYTES", [1], texts(b"a")), given("IN_INT8", np.zeros(3, np.int8), "INT8")],
        ["OUT_STRING", "OUT_INT8"],
    )
    yield _row("raw and no contents", "addsub", [good()[0], good()[1]._replace(data=None, typed=("fp32_contents", [1.0] * 16))])
    yield _row("typed and no contents", "addsub", [t._replace(data=None, typed=("fp32_contents", [1.0] * 16)) for t in good()])
    yield _row("typed strings", "identity", [Tensor("IN_STRING", "BYTES", [2], None, ("bytes_contents", [b"a", b"\xff\0"]))])
    yield _row("too few typed strings", "identity", [Tensor("IN_STRING", "BYTES", [2], None, ("bytes_contents", [b"a"]))])
    yield _row(
        "strings in a batch", "addsub_string", [Tensor(n, "BYTES", [1, 16], texts(*[b"3"] * 16)) for n in ("INPUT0", "INPUT1")]
    )


def _marked() -> Iterator[Row]:
    """Parameters of a request, of its inputs and outputs."""
    for key, value in (
        ("timeout", 5_000_000), ("timeout", "5"), ("timeout", -5), ("timeout", 1.5), ("timeout", True), ("priority", 5), ("priority", -1),
        ("priority", "5"), ("sequence_id", 5), ("sequence_id", "five"), ("sequence_id", True), ("sequence_start", 1), ("sequence_end", "x"),
        ("triton_foo", "x"), ("triton_enable_empty_final_response", True), ("triton_final_response", True), ("headers", "x"),
        ("binary_data_output", True), ("custom", 1.5), ("custom", 7), ("custom", "text"), ("custom", False), ("", "x"),
    ):  # fmt: skip
        yield _row(f"parameter {key}={value!r}", "parameters", [given("X", np.ones(1, np.float32), "FP32")], **{key: value})
    unset = message("parameters", [given("X", np.ones(1, np.float32), "FP32")])
    unset.parameters["nothing"].SetInParent()
    yield "parameter without a value", unset, {}
    unsigned = message("parameters", [given("X", np.ones(1, np.float32), "FP32")])
    unsigned.parameters["priority"].uint64_param = 2**63
    yield "priority 2^63", unsigned, {}
    unsigned = message("parameters", [given("X", np.ones(1, np.float32), "FP32")])
    unsigned.parameters["custom"].uint64_param = 2**63
    yield "parameter of 64 unsigned bits", unsigned, {}
    x = np.array([[0.5, -1.0, 2.25, 2.25]], np.float32)
    for k in (1, 3, 4, 5, 1000000, -1):
        yield _row(f"{k} classes", "classes", [given("X", x, "FP32")], ["Y"], classification=k)
    ints = Tensor("XI", "INT32", [1, 3], np.array([3, -7, 5], np.int32).tobytes())
    yield _row("classes of integers", "classes", [given("X", x, "FP32"), ints], ["YI"], classification=2)
    yield _row("classes of a batch", "classes", [given("X", np.concatenate([x, -x, x * 0]), "FP32")], ["Y"], classification=2)
    yield _row(
        "classes of no finite values",
        "classes",
        [given("X", np.array([[np.inf, 1e30, -np.inf, 1e-9]], np.float32), "FP32")],
        ["Y"],
        classification=4,
    )
    for name, values in (
        ("NaN", [np.nan, 1, np.nan, 2]),
        ("equal values", [1, 1, 1, 1]),
        ("zeros of both signs", [-0.0, 0.0, -0.0, 0.0]),
    ):
        yield _row(
            f"classes of {name}", "classes", [given("X", np.array([values], np.float32), "FP32")], ["Y"], classification=4
        )
    yield _row("2^40 classes", "classes", [given("X", x, "FP32")], ["Y"], classification=2**40)
    wide = Tensor("X", "FP32", [1, 4], np.array([1e-40, 1e38, 123456789, 0.1], np.float32).tobytes())
    yield _row("classes of very large and small values", "classes", [wide], ["Y"], classification=4)
    yield _row("classes of all outputs but one", "classes", [given("X", x, "FP32"), ints], ["YI", "Y"], classification=1)
    for datatype, kind in PLAIN.items():
        if datatype not in ("FP16", "BOOL"):
            of = given(f"IN_{datatype}", np.array([3, 0, 7, 7], kind), datatype)
            yield _row(f"classes of {datatype}", "identity", [of], [f"OUT_{datatype}"], classification=3)
    wrong = message("classes", [given("X", x, "FP32")], ["Y"])
    wrong.outputs[0].parameters["classification"].string_param = "2"
    yield "classification that is not a number", wrong, {}
    for where in ("input", "output"):
        yield f"unknown {where} region", _in_region(where), {}


def _in_region(where: str) -> Any:
    request = message("addsub", [t._replace(data=None) for t in good()] if where == "input" else good(), ["OUTPUT0"])
    for tensor in request.inputs if where == "input" else request.outputs:
        tensor.parameters["shared_memory_region"].string_param = "nowhere"
        tensor.parameters["shared_memory_byte_size"].int64_param = 64
    return request


def _typed() -> Iterator[Row]:
    """Every datatype, raw and typed."""
    for datatype, kind in PLAIN.items():
        x: np.ndarray = (np.arange(5) % 2 if datatype == "BOOL" else np.arange(5)).astype(kind)
        yield _row(f"raw {datatype}", "identity", [given(f"IN_{datatype}", x, datatype)])
        if datatype in _CONTENTS:
            typed = Tensor(f"IN_{datatype}", datatype, [5], None, (_CONTENTS[datatype], x.tolist()))
            yield _row(f"typed {datatype}", "identity", [typed])
    yield _row("raw BF16", "identity", [Tensor("IN_BF16", "BF16", [3], b"\x80\x3f\x00\x40\x40\x40")])
    yield _row("typed FP16", "identity", [Tensor("IN_FP16", "FP16", [1], None, ("fp32_contents", [1.0]))])
    yield _row(
        "typed values that do not fit INT8", "identity", [Tensor("IN_INT8", "INT8", [2], None, ("int_contents", [300, -200]))]
    )
    yield _row(
        "typed values that do not fit UINT16",
        "identity",
        [Tensor("IN_UINT16", "UINT16", [1], None, ("uint_contents", [70000]))],
    )
    yield _row("booleans that are neither 0 nor 1", "identity", [Tensor("IN_BOOL", "BOOL", [2], b"\x02\xff")])
