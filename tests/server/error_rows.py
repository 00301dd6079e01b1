# SPDX-License-Identifier: Apache-2.0
"""The rows of Triton's error table: what is asked, and the code and the whole text of each protocol's answer.

What HTTP cannot say in the same way (a JSON input has one source of data, a path's version is a number) is refused by HTTP's
own rule. The texts are those of a real tritonserver 2.51, or of newer ones where docs/coming-from-triton.md says so.
"""

from __future__ import annotations

from typing import NamedTuple

from tritonclient.grpc import service_pb2

from tests.server.questions import (
    Asked,
    Tensor,
    by_json,
    control,
    in_memory,
    infer,
    load,
    place,
    register,
    statistics,
    unload,
    without_raw,
)

#: start of the message on a tensor of the wrong shape
SHAPE = "unexpected shape for input 'x' for model 'm'. Expected [-1,3], got "

#: in front of what is wrong with a tensor, where the request has no id
ID = "[request id: <id_unknown>] "
NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input "
    "shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)
ONE_SOURCE = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in "
    "'parameters'. But "
)
DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
WRONG_MODE = "explicit model load / unload is not allowed if polling is enabled"
NO_REPOSITORY = "'repository_name' specification is not supported"


class Row(NamedTuple):
    """A question to one of the servers, and what both protocols answer. http_text "": gRPC's text."""

    server: str
    asked: Asked
    code: str
    status: int
    text: str
    http_text: str = ""


TRACE_FILE = service_pb2.TraceSettingRequest.SettingValue(value=["/x"])
LOG_FILE = service_pb2.LogSettingsRequest.SettingValue(string_param="/x")
WARNING_OFF = service_pb2.LogSettingsRequest.SettingValue(bool_param=False)
A, B = Tensor("a"), Tensor("b")
BAD, NOT_FOUND = ("INVALID_ARGUMENT", 400), ("NOT_FOUND", 404)
UNAVAILABLE, INTERNAL, UNIMPLEMENTED = ("UNAVAILABLE", 503), ("INTERNAL", 500), ("UNIMPLEMENTED", 501)
PLAIN, OPEN, GUARDED = "plain", "open", "guarded"

ROWS: dict[str, Row] = {
    "unknown model": Row(PLAIN, infer(Tensor(), model="n"), *NOT_FOUND, "Request for unknown model: 'n' is not found"),
    "unknown version": Row(
        PLAIN, infer(Tensor(), version="7"), *NOT_FOUND, "Request for unknown model: 'm' version 7 is not found"
    ),
    "no versions": Row(
        PLAIN, infer(Tensor(), model="broken"), *NOT_FOUND, "Request for unknown model: 'broken' has no available versions"
    ),
    "version not ready": Row(
        PLAIN,
        infer(Tensor(), model="broken", version="1"),
        *UNAVAILABLE,
        "Request for unknown model: 'broken' version 1 is not at ready state",
    ),
    "version no number": Row(
        PLAIN,
        infer(Tensor(), version="abc"),
        "INVALID_ARGUMENT",
        404,
        "failed to get model version from specified version string 'abc' (details: stol), "
        "version should be an integral value > 0",
        "Not Found",
    ),
    "batch too big": Row(
        PLAIN, infer(Tensor(shape=(201, 3), data=b"")), *BAD, ID + "inference request batch-size must be <= 200 for 'm'"
    ),
    "batch differs": Row(
        PLAIN,
        infer(A, Tensor("b", (1, 3), bytes(12)), model="pair"),
        *BAD,
        ID + "input 'b' batch size does not match other inputs for 'pair'",
    ),
    "shape": Row(PLAIN, infer(Tensor(shape=(2, 4))), *BAD, f"{ID}{SHAPE}[2,4]. {NOTE}"),
    "datatype": Row(
        PLAIN,
        infer(Tensor(datatype="INT32")),
        *BAD,
        ID + "inference input 'x' data-type is 'INT32', but model 'm' expects 'FP32'",
    ),
    "byte size": Row(
        PLAIN,
        infer(Tensor(data=bytes(5))),
        *BAD,
        ID + "input byte size mismatch for input 'x' for model 'm'. Expected 24, got 5",
    ),
    "too few strings": Row(
        PLAIN,
        infer(Tensor("x", (1, 2), bytes(4), "BYTES"), model="text"),
        *BAD,
        ID + "expected 2 string elements for inference input 'x' for model 'text', got 1",
    ),
    "too many strings": Row(
        PLAIN,
        infer(Tensor("x", (1, 2), bytes(12), "BYTES"), model="text"),
        *BAD,
        ID + "unexpected number of string elements 3 for inference input 'x' for model 'text', expecting 2",
    ),
    "unknown input": Row(PLAIN, infer(Tensor("w")), *BAD, "unexpected inference input 'w' for model 'm'"),
    "unknown output": Row(PLAIN, infer(Tensor(), outputs=("z",)), *BAD, "unexpected inference output 'z' for model 'm'"),
    "duplicate output": Row(PLAIN, infer(Tensor(), outputs=("y", "y")), *BAD, ID + "output 'y' already exists in request"),
    "missing inputs": Row(
        PLAIN,
        infer(A, model="pair"),
        *BAD,
        ID + "expected 2 inputs but got 1 inputs for model 'pair'. Got input(s) ['a'], but missing required input(s) ['b']. "
        "Please provide all required input(s).",
    ),
    "optional-input model": Row(
        PLAIN,
        infer(model="optional"),
        *BAD,
        ID + "expected number of inputs between 1 and 2 but got 0 inputs for model 'optional'. Got input(s) [], but missing "
        "required input(s) ['a']. Please provide all required input(s).",
    ),
    "no data": Row(
        PLAIN,
        by_json({}, without_raw()),
        *BAD,
        "unable to find data for input tensor 'x' for model 'm' in request.",
        ONE_SOURCE + "no field is set",
    ),
    "raw and typed": Row(
        PLAIN,
        by_json({"data": [1] * 6, "parameters": {"binary_data_size": 24}}, without_raw(contents=6, raw=True)),
        *BAD,
        "contents field must not be specified when using raw_input_contents for 'x' for model 'm'",
        ONE_SOURCE + "set 'data' 'binary_data_size'",
    ),
    "shared memory and contents": Row(
        OPEN,
        by_json({"data": [1] * 6, "parameters": place()}, without_raw(place(), contents=6)),
        *BAD,
        "unexpected 'content' provided when using shared memory for input tensor 'x' for model 'm'",
        ONE_SOURCE + "set 'data' 'shared_memory_region'",
    ),
    "reserved parameter": Row(
        PLAIN,
        infer(Tensor(), triton_x=1),
        *BAD,
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
        "'triton_' are allowed: triton_enable_empty_final_response",
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    ),
    "decoupled model": Row(
        PLAIN,
        infer(Tensor(shape=(3,), data=bytes(12)), model="stream"),
        *UNIMPLEMENTED,
        "ModelInfer RPC doesn't support models with decoupled transaction policy",
        "HTTP end point doesn't support models with decoupled transaction policy",
    ),
    "restricted group": Row(
        GUARDED,
        statistics("m"),
        "UNAVAILABLE",
        403,
        "This protocol is restricted, expecting header 'triton-grpc-protocol-key'",
        "This API is restricted, expecting header 'key'",
    ),
    "shared memory disabled": Row(PLAIN, register("q", "/none"), *UNIMPLEMENTED, DISABLED),
    "input in memory that is disabled": Row(PLAIN, in_memory(), *UNIMPLEMENTED, DISABLED),
    "output in memory that is disabled": Row(
        PLAIN, infer(Tensor(), outputs=("y",), place=place()), *UNIMPLEMENTED, DISABLED
    ),
    "region twice": Row(
        OPEN, register("r", "/none"), "ALREADY_EXISTS", 400, "shared memory region 'r' already in manager"
    ),
    "region that cannot be opened": Row(
        OPEN, register("q", "/none"), *INTERNAL, "Unable to open shared memory region: '/none'"
    ),
    "region of another server's": Row(
        OPEN,
        register("q", "/triton_python_backend_shm_region_1"),
        *BAD,
        "cannot register shared memory region 'q' with key '/triton_python_backend_shm_region_1' as the key contains the "
        "reserved prefix 'triton_python_backend_shm_region_'",
    ),
    "status of an unknown region": Row(
        OPEN,
        control("SystemSharedMemoryStatus", "/v2/systemsharedmemory/region/n/status", method="GET", name="n"),
        *NOT_FOUND,
        "Unable to find system shared memory region: 'n'",
    ),
    "input in an unknown region": Row(
        OPEN, in_memory(shared_memory_region="n"), *NOT_FOUND, "Unable to find shared memory region: 'n'"
    ),
    "output in an unknown region": Row(
        OPEN,
        infer(Tensor(), outputs=("y",), place=place(shared_memory_region="n")),
        *NOT_FOUND,
        "Unable to find shared memory region: 'n'",
    ),
    "output's place too small": Row(
        OPEN,
        infer(Tensor(), outputs=("y",), place=place(shared_memory_byte_size=4)),
        *INTERNAL,
        "shared memory size specified with the request for output 'y' (4 bytes) should be at least 8 bytes to hold the results",
    ),
    "offset past its region": Row(
        OPEN, in_memory(shared_memory_offset=64), *BAD, "Invalid offset for shared memory region: 'r'"
    ),
    "negative offset": Row(
        OPEN,
        in_memory(shared_memory_offset=-1),
        "INVALID_ARGUMENT",
        500,
        "Invalid offset for shared memory region: 'r'",
        "Unable to parse 'shared_memory_offset': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    "offset of another type": Row(
        OPEN,
        in_memory(shared_memory_offset="1"),
        "INVALID_ARGUMENT",
        500,
        "invalid value type for 'shared_memory_offset' parameter for tensor 'x', expected int64_param.",
        "Unable to parse 'shared_memory_offset': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    "size past its region": Row(
        OPEN, in_memory(shared_memory_byte_size=65), *BAD, "Invalid offset + byte size for shared memory region: 'r'"
    ),
    "size that overflows": Row(
        OPEN,
        in_memory(shared_memory_offset=63, shared_memory_byte_size=2**63 - 1),
        *BAD,
        "Invalid offset + byte size for shared memory region: 'r'",
    ),
    "negative size": Row(
        OPEN,
        in_memory(shared_memory_byte_size=-1),
        "INVALID_ARGUMENT",
        500,
        "Invalid offset + byte size for shared memory region: 'r'",
        "Unable to parse 'shared_memory_byte_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    "region without a size": Row(
        OPEN,
        in_memory(shared_memory_byte_size=None),
        *BAD,
        "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'x'",
        "Invalid offset + byte size for shared memory region: 'r'",
    ),
    "output's region without a size": Row(
        OPEN,
        infer(Tensor(), outputs=("y",), place=place(shared_memory_byte_size=None)),
        *BAD,
        "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'y'",
        "Invalid offset + byte size for shared memory region: 'r'",
    ),
    "size without a region": Row(
        OPEN,
        in_memory(shared_memory_region=None),
        *BAD,
        "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'x'",
        ONE_SOURCE + "no field is set",
    ),
    "region that is not a name": Row(
        OPEN,
        in_memory(shared_memory_region=5),
        "INVALID_ARGUMENT",
        500,
        "invalid value type for 'shared_memory_region' parameter for tensor 'x', expected string_param.",
        "Unable to parse 'shared_memory_region': attempt to access JSON non-string as string",
    ),
    "classes into a region": Row(
        OPEN,
        infer(Tensor(), outputs=("y",), place=place(classification=1)),
        *BAD,
        "output can't set both 'shared_memory_region' and 'classification'",
        "Output can't set both 'shared_memory_region' and 'classification'",
    ),
    "load in the wrong mode": Row(PLAIN, load("m"), *UNAVAILABLE, WRONG_MODE),
    "unload in the wrong mode": Row(PLAIN, unload("m"), *UNAVAILABLE, WRONG_MODE),
    "load of what is not there": Row(
        OPEN, load("nope"), *INTERNAL, "failed to load 'nope', failed to poll from model repository"
    ),
    "load that fails": Row(
        OPEN,
        load("broken"),
        *BAD,
        "load failed for model 'broken': version 1 is at UNAVAILABLE state: Internal: broken/1/broken: no card;\n",
    ),
    "repository_name in load": Row(OPEN, load("m", repository_name="x"), *UNIMPLEMENTED, NO_REPOSITORY),
    "repository_name in unload": Row(
        OPEN,
        control("RepositoryModelUnload", "/v2/repository/x/models/m/unload", {}, repository_name="x", model_name="m"),
        *UNIMPLEMENTED,
        NO_REPOSITORY,
    ),
    "load of a path": Row(
        OPEN,
        load("..m"),
        *BAD,
        "invalid model name '..m', model name must not contain path traversal characters",
    ),
    "statistics of an unknown model": Row(PLAIN, statistics("n"), *BAD, "requested model 'n' is not available"),
    "statistics of an unknown version": Row(
        PLAIN, statistics("m", "7"), *BAD, "requested model version is not available for model 'm'"
    ),
    "trace file": Row(
        PLAIN,
        control("TraceSetting", "/v2/trace/setting", {"trace_file": "/x"}, settings={"trace_file": TRACE_FILE}),
        *UNIMPLEMENTED,
        "trace file location can not be updated through network protocol",
    ),
    "log file": Row(
        PLAIN,
        control("LogSettings", "/v2/logging", {"log_file": "/x"}, settings={"log_file": LOG_FILE}),
        *UNIMPLEMENTED,
        "log file location can not be updated through network protocol",
    ),
    "less of a log": Row(
        PLAIN,
        control("LogSettings", "/v2/logging", {"log_warning": False}, settings={"log_warning": WARNING_OFF}),
        *UNIMPLEMENTED,
        "the log cannot be reduced over the network: log_warning would show less than the server was started with. Ask for "
        "credentials for the group 'logging' on every port (docs/security.md), or start the server with "
        "'--allow-client-log-off=true'",
    ),
}  # fmt: skip
