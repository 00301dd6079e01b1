# SPDX-License-Identifier: Apache-2.0
"""Reads config.pbtxt, or its JSON form, into a checked ModelConfig: text -> message -> completed message -> ModelConfig."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path

from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.backends import NO_BACKENDS, Backends
from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.config.values import check_enums
from hypersonic.server.core.links import Links
from hypersonic.server.errors import ModelConfigError

#: the longest configuration. 4096 tensors take a third of it; protobuf's parsers, which are Python, take 2 to 4 s for it
MAX_CONFIG_BYTES = 1 << 20
#: the deepest nesting; text_format recurses once for each level
_MAX_NESTING = 100
#: the most messages and lists of one configuration: an empty one is two bytes of text, and takes JSON's parser 20 us
_MAX_PARTS = 32_768
#: brackets, and the comments and strings that may contain some. It does not backtrack: an unclosed string ends with its line
_OPENERS = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|[{}<>\[\]]""")

#: Triton's platform -> backend, for the backends that this server does not have
_FOREIGN_PLATFORMS = {
    "tensorrt_plan": "tensorrt",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "pytorch_libtorch": "pytorch",
}


def read_config(path: Path, directory_name: str, backends: Backends = NO_BACKENDS) -> ModelConfig:
    """Read a config.pbtxt. The model gets the name of its directory.

    Raises ModelConfigError with file, line and column for text that is not an inference.ModelConfig (which includes unknown
    fields), and with the field's name for values that cannot be served.
    """
    message = read_message(path, directory_name, Links())
    infer_backend(message, (), backends)
    return check_config(message, backends)


def read_message(path: Path, directory_name: str, links: Links) -> model_config_pb2.ModelConfig:
    """Read a config.pbtxt into a message with the directory's name. Only its enums are checked. Raises ModelConfigError."""
    message = parse_config(_text(path, directory_name, links), f"{directory_name}/{path.name}")
    return named(message, directory_name)


def named(message: model_config_pb2.ModelConfig, directory_name: str) -> model_config_pb2.ModelConfig:
    """Return the message with the directory's name. Raises ModelConfigError, with Triton's text, if it has another name."""
    if message.name and message.name != directory_name:
        raise ModelConfigError(
            f"unexpected directory name '{directory_name}' for model '{message.name}', directory name must equal model name"
        )
    message.name = directory_name
    check_enums(message)
    return message


def _text(path: Path, directory_name: str, links: Links) -> str:
    try:
        data = links.read(path, path.parent, f"{directory_name}/{path.name}", MAX_CONFIG_BYTES)
        if len(data) > MAX_CONFIG_BYTES:
            raise _too_long(f"{directory_name}/{path.name}", path.stat().st_size)
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelConfigError(f"failed to read {directory_name}/{path.name}: {reason}") from error


def _too_long(what: str, size_bytes: int) -> ModelConfigError:
    return ModelConfigError(
        f"{what} has {size_bytes} bytes, expected at most {MAX_CONFIG_BYTES}: move long values (labels, sample data) into "
        "separate files that the configuration names"
    )


def parse_config(text: str, origin: str) -> model_config_pb2.ModelConfig:
    """Parse a configuration in protobuf's text format. Raises ModelConfigError, whose text begins `origin:line:column:`."""
    _refuse_costly(text, origin)
    try:
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        place = f"{origin}:{line}:{column}" if line is not None else origin
        reason = str(error).split(" : ", 1)[-1] if line is not None else str(error)
        raise ModelConfigError(f"{place}: {reason}") from error
    except ValueError as error:  # an integer that does not fit its field
        raise ModelConfigError(f"{origin}: {error}") from error


def _refuse_costly(text: str, origin: str) -> None:
    """Raise ModelConfigError for a text that is expensive to parse: text_format recurses as deep as the text is nested, and
    makes a message for every `{}`.
    """
    depth = parts = 0
    for match in _OPENERS.finditer(text):
        opens = match[0] in "{<["
        depth += opens - (match[0] in "}>]")
        parts += opens
        if depth > _MAX_NESTING:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            raise ModelConfigError(f"{origin}:{line}:{column}: nested deeper than {_MAX_NESTING}")
    if parts > _MAX_PARTS:
        raise ModelConfigError(
            f"{origin} has more than {_MAX_PARTS} bracketed parts (messages and lists), got {parts}: describe fewer tensors, "
            "parameters or steps in one model"
        )


def parse_json_config(text: str, directory_name: str) -> model_config_pb2.ModelConfig:
    """Parse the JSON form of a model configuration (`config` of RepositoryModelLoad). Integers may be strings.

    Fields that the JSON does not name keep their defaults; nothing is taken from a config.pbtxt. Raises ModelConfigError.
    """
    what = f"the configuration of model '{directory_name}'"
    size_bytes = len(text) if len(text) > MAX_CONFIG_BYTES else len(text.encode(errors="surrogatepass"))
    if size_bytes > MAX_CONFIG_BYTES:
        raise _too_long(what, size_bytes)
    _refuse_costly(text, what)
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ModelConfigError("the model configuration is not a JSON object")
        return named(json_format.ParseDict(value, model_config_pb2.ModelConfig()), directory_name)
    except (ValueError, json_format.ParseError) as error:
        raise ModelConfigError(f"failed to parse the model configuration: {error}") from error


def infer_backend(message: model_config_pb2.ModelConfig, files: Collection[str], backends: Backends) -> None:
    """Fill in backend, platform and default_model_filename, each from the others, or from a version's file names.

    As in Triton, the backend is inferred from the platform, and if there is none, from the model file.

    Args:
        files: the names in a version's directory.
    """
    if not message.backend:
        message.backend = _backend_of_platform(message.platform, backends) or _backend_of_files(message, files, backends)
    known = backends.get(message.backend)
    if known is None:
        return
    message.platform = message.platform or known.platform
    message.default_model_filename = message.default_model_filename or known.model_file  # the ModelConfig RPC shows it


def _backend_of_platform(platform: str, backends: Backends) -> str:
    ours = {known.platform: known.name for known in backends.values() if known.platform}
    return ours.get(platform) or _FOREIGN_PLATFORMS.get(platform, "")


def _backend_of_files(message: model_config_pb2.ModelConfig, files: Collection[str], backends: Backends) -> str:
    if message.platform:
        return ""
    present = (message.default_model_filename,) if message.default_model_filename else files
    return next((known.name for known in backends.values() if known.model_file in present), "")
