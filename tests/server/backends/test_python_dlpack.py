# SPDX-License-Identifier: Apache-2.0
"""DLPack in python models: every datatype in both directions, BF16 above all, which numpy does not have."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.backends.onnxruntime.backend import _onnxruntime
from hypersonic.server.backends.python.stub.errors import TritonModelException
from hypersonic.server.backends.python.stub.tensor import NUMPY, Packed, Tensor, unpack
from tests.server.backends import dlpack_producer as dl
from tests.server.backends.dlpack_producer import Producer, header
from tests.server.onnx_graphs import identity, tensors, write_onnx
from tests.server.python_models import source, write_python
from tests.server.python_serving import client_of, serving

pytestmark = pytest.mark.whole("requirements.lock", "server/backends/python", "tests/server/backends")

BF16 = np.array([[1.5, -2.0, 3e38], [0.0, -0.0, np.nan]], ml_dtypes.bfloat16)
BITS = BF16.view(np.uint16)
CODES = {
    "BOOL": (dl.BOOL, 8), "UINT8": (dl.UINT, 8), "UINT16": (dl.UINT, 16), "UINT32": (dl.UINT, 32), "UINT64": (dl.UINT, 64),
    "INT8": (dl.INT, 8), "INT16": (dl.INT, 16), "INT32": (dl.INT, 32), "INT64": (dl.INT, 64), "FP16": (dl.FLOAT, 16),
    "FP32": (dl.FLOAT, 32), "FP64": (dl.FLOAT, 64), "BF16": (dl.BFLOAT, 16),
}  # fmt: skip
MAKE: dict[str, Callable[[Tensor], object]] = {
    "to_dlpack": lambda tensor: tensor.to_dlpack(),
    "__dlpack__": lambda tensor: tensor.__dlpack__(),
    "of a stream": lambda tensor: tensor.__dlpack__(stream=None),
    "versioned": lambda tensor: tensor.__dlpack__(max_version=(1, 0)),
    "newest": lambda tensor: tensor.__dlpack__(max_version=(9, 9), dl_device=(1, 0), copy=False),
}


def array_of(datatype: str) -> np.ndarray:
    return BITS.copy() if datatype == "BF16" else np.arange(6).reshape(2, 3).astype(NUMPY[datatype])


def received(datatype: str, array: np.ndarray) -> Tensor:
    """An input, as execute() gets it."""
    flat = array.reshape(-1).view(np.uint8)
    return Tensor.received("x", datatype, array.shape, partial(unpack, datatype, array.shape, flat))


def data_of(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    packed = Packed(tensor)
    return packed.datatype, tuple(packed.shape), bytes(packed.data)


@pytest.mark.parametrize("datatype", CODES)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_tensor_is_given_without_a_copy(datatype: str, make: Callable[[Tensor], object]) -> None:
    array = array_of(datatype)
    capsule = make(received(datatype, array))
    fields = header(capsule)
    assert (fields["type"], fields["shape"], fields["device"]) == ((*CODES[datatype], 1), [2, 3], (1, 0))
    assert fields["address"] == array.ctypes.data
    assert data_of(Tensor.from_dlpack("y", capsule)) == (datatype, (2, 3), array.tobytes())


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("datatype", CODES)
def test_a_tensor_is_taken_and_given_back(datatype: str, versioned: bool) -> None:
    array = array_of(datatype)
    producer = Producer(array, *CODES[datatype], (2, 3), versioned=versioned)
    tensor = Tensor.from_dlpack("y", producer)
    assert (tensor.name(), tensor.shape(), data_of(tensor)) == ("y", [2, 3], (datatype, (2, 3), array.tobytes()))
    again = Tensor.from_dlpack("z", tensor.to_dlpack())
    del tensor
    gc.collect()
    assert producer.released == 0
    assert data_of(again)[2] == array.tobytes()
    del again
    gc.collect()
    assert producer.released == 1


def taken(OrtValue: Any, capsule: object) -> Any:
    """The value of onnxruntime for a capsule. Version 1.31 wants to know whether it is of booleans, later ones see it."""
    try:
        return OrtValue.from_dlpack(capsule, False)
    except TypeError:
        return OrtValue.from_dlpack(capsule)


def test_onnxruntime_and_python_models_exchange_bfloat16() -> None:
    """A producer and consumer of another project, with bfloat16 of its own."""
    OrtValue = _onnxruntime().capi.onnxruntime_pybind11_state.OrtValue
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(BITS, 16)
    for exporter in (value, value.to_dlpack()):
        tensor = Tensor.from_dlpack("x", exporter)
        assert data_of(tensor) == ("BF16", (2, 3), BITS.tobytes())
        back = taken(OrtValue, tensor.to_dlpack())
        assert (back.element_type(), back.shape()) == (16, [2, 3])
        assert data_of(Tensor.from_dlpack("y", back))[2] == BITS.tobytes()


def test_a_tensor_of_bfloat16_is_no_array() -> None:
    """The text is Triton's."""
    text = r"^Tensor dtype is BF16 and cannot be converted to NumPy\. Use to_dlpack\(\) and from_dlpack\(\) instead\.$"
    for tensor in (received("BF16", BITS), Tensor.from_dlpack("x", received("BF16", BITS))):
        with pytest.raises(TritonModelException, match=text):
            tensor.as_numpy()
        assert tensor.triton_dtype() == 14


def test_a_capsule_is_taken_once() -> None:
    producer = Producer(BITS.copy(), dl.BFLOAT, 16, (2, 3))
    capsule = producer.capsule()
    kept = Tensor.from_dlpack("x", capsule)
    with pytest.raises(TritonModelException, match="taken before"):
        Tensor.from_dlpack("x", capsule)
    del kept
    gc.collect()
    assert producer.released == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "columns first": ({"strides": (1, 2)}, r"^DLPack tensor is not contiguous\. Only contiguous DLPack"),
    "every second": ({"strides": (6, 2)}, r"^DLPack tensor is not contiguous\."),
    "backwards": ({"strides": (-3, 1)}, r"^DLPack tensor is not contiguous\."),
    "the same row again": ({"strides": (0, 1)}, r"^DLPack tensor is not contiguous\."),
    "on a GPU": ({"device": dl.CUDA}, r"^DLDevice type 2 is not support by Python backend\.$"),
    "vectors": ({"lanes": 2}, r"not a Triton datatype"),
    "more than memory": ({"shape": (1 << 40, 1 << 40)}, r"more than memory can hold"),
    "a negative dimension": ({"shape": (-1, 3)}, r"shape \[-1, 3\]"),
    "a newer protocol": ({"versioned": True, "newest": 2}, r"version 2"),
}  # fmt: skip


@pytest.mark.parametrize("code", [(dl.BFLOAT, 16), (dl.FLOAT, 32)], ids=["BF16", "FP32"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_taken_is_refused_and_given_back(wrong: str, code: tuple[int, int]) -> None:
    fields, text = WRONG[wrong]
    producer = Producer(np.zeros(64, np.uint8), *code, **{"shape": (2, 3), **fields})
    with pytest.raises(TritonModelException, match=text):
        Tensor.from_dlpack("x", producer)
    gc.collect()
    # a GPU's tensor was not even asked for
    assert (producer.released, bool(producer.asked)) == ((0, False) if wrong == "on a GPU" else (1, True))


@pytest.mark.parametrize("code", [(dl.COMPLEX, 64), (dl.FLOAT, 8), (dl.BFLOAT, 32), (3, 64)])
def test_a_datatype_that_triton_does_not_have_is_refused(code: tuple[int, int]) -> None:
    producer = Producer(np.zeros(64, np.uint8), *code, (2, 3))
    with pytest.raises(TritonModelException, match="not a Triton datatype"):
        Tensor.from_dlpack("x", producer)
    gc.collect()
    assert producer.released == 1


@pytest.mark.parametrize("exporter", [5, None, np.zeros(3).tolist()])
def test_what_is_no_tensor_is_refused(exporter: object) -> None:
    with pytest.raises(TritonModelException, match=r"^Provided tensor is not supported\. Tensor must be a DLPack capsule"):
        Tensor.from_dlpack("x", exporter)
    with pytest.raises(TritonModelException, match=r"^Tensor name cannot be an empty string\.$"):
        Tensor.from_dlpack("", received("BF16", BITS))


def test_strings_are_not_given() -> None:
    tensor = Tensor("x", np.array([b"a"], np.object_))
    for make in MAKE.values():
        with pytest.raises(TritonModelException, match=r"^DLPack does not have support for string tensors\.$"):
            make(tensor)


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
@pytest.mark.parametrize(
    ("shape", "strides"), [((0, 3), None), ((), None), ((2, 1, 3), (3, 77, 1)), ((1, 6), (1, 1)), ((0, 3), (5, 5))]
)
def test_odd_shapes_are_taken(datatype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    """Where there is one element, or none, a stride means nothing."""
    array = array_of(datatype).reshape(-1)
    producer = Producer(array, *CODES[datatype], shape, strides=strides)
    count = int(np.prod(shape))
    assert data_of(Tensor.from_dlpack("x", producer)) == (datatype, shape, array[:count].tobytes())


def test_a_tensor_that_begins_amid_its_memory_is_taken() -> None:
    producer = Producer(BITS.copy(), dl.BFLOAT, 16, (3,), offset=6)
    assert data_of(Tensor.from_dlpack("x", producer))[2] == BITS[1].tobytes()


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_memory_that_is_read_only_is_not_given_to_whoever_may_write(datatype: str) -> None:
    array = array_of(datatype)
    array.flags.writeable = False
    tensor = received(datatype, array)
    old, new = header(tensor.to_dlpack()), header(tensor.__dlpack__(max_version=(1, 0)))
    assert old["address"] != array.ctypes.data
    assert (new["address"], new["flags"] & dl.READ_ONLY) == (array.ctypes.data, dl.READ_ONLY)


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_what_is_asked_of_the_giver_is_answered_or_refused(datatype: str) -> None:
    array = array_of(datatype)
    tensor = received(datatype, array)
    assert header(tensor.__dlpack__(max_version=(1, 0), copy=True))["address"] != array.ctypes.data
    for asked in ({"stream": 7}, {"dl_device": (2, 0), "max_version": (1, 0)}):
        with pytest.raises((BufferError, RuntimeError, ValueError)):
            tensor.__dlpack__(**asked)
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
def test_capsules_let_go_of_the_tensor_whether_somebody_takes_them_or_not(datatype: str) -> None:
    array = array_of(datatype)
    tensor = received(datatype, array)
    tensor.to_dlpack()
    before = sys.getrefcount(array)
    for make in MAKE.values():
        for _ in range(100):
            make(tensor)
            Tensor.from_dlpack("x", make(tensor))
    gc.collect()
    assert sys.getrefcount(array) == before


def test_bfloat16_passes_through_an_ensemble_of_python_and_onnx(tmp_path: Path) -> None:
    code = source("""
        def copy(request):
            given = pb_utils.get_input_tensor_by_name(request, "x")
            return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("y", given.to_dlpack())])
        return [copy(request) for request in requests]
        """)
    shape = [("x", "BF16", [-1])], [("y", "BF16", [-1])]
    config = tensors("input", *shape[0]) + tensors("output", *shape[1])
    write_python(tmp_path, "python", code, config)
    asking = source("""
        def ask(request):
            asked = pb_utils.InferenceRequest(
                model_name="python", requested_output_names=["y"], inputs=[pb_utils.get_input_tensor_by_name(request, "x")])
            return pb_utils.InferenceResponse(asked.exec().output_tensors())
        return [ask(request) for request in requests]
        """)
    write_python(tmp_path, "asking", asking, config)
    write_onnx(tmp_path, "onnx", identity("BF16", ("N",)), config)
    names, steps = ("python", "onnx", "asking"), []
    for number, name in enumerate(names):
        given, result = (("x" if not number else f"t{number}"), ("y" if number == 2 else f"t{number + 1}"))
        steps.append(
            f'step {{ model_name: "{name}" model_version: -1 input_map {{ key: "x" value: "{given}" }} '
            f'output_map {{ key: "y" value: "{result}" }} }}'
        )
    (tmp_path / "all" / "1").mkdir(parents=True)
    ensemble = f'platform: "ensemble"\n{config} ensemble_scheduling {{ {" ".join(steps)} }}'
    (tmp_path / "all" / "config.pbtxt").write_text(ensemble)
    with serving(tmp_path) as server, client_of(server) as client:
        given = triton.InferInput("x", [6], "BF16")
        given._raw_content = BITS.tobytes()
        answer = client.infer("all", [given]).get_response()
    assert (answer.outputs[0].datatype, answer.raw_output_contents[0]) == ("BF16", BITS.tobytes())
