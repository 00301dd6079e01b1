# SPDX-License-Identifier: Apache-2.0
"""Checks the numbers of a model configuration: enums, before the name of a number is looked up, and the bounds of other fields.

Enums of proto3 are open: protobuf accepts any 32-bit number in a text or a JSON configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

from hypersonic.server.errors import ModelConfigError
from hypersonic.server.limits.bounds import FIELDS


def check_enums(message: model_config_pb2.ModelConfig) -> None:
    """Raise ModelConfigError with the path of the first enum field whose number is not defined."""
    for path, field, number in _values(message, ""):
        if field.enum_type is not None and number not in field.enum_type.values_by_number:
            known = ", ".join(value.name for value in field.enum_type.values)
            raise ModelConfigError(f"{path} is {number}, expected one of {known} for {message.name}")


def check_bounds(message: model_config_pb2.ModelConfig) -> None:
    """Raise ModelConfigError with the path of the first field whose number is outside its bounds (server/limits/bounds.py)."""
    for path, field, number in _values(message, ""):
        bound = FIELDS.get(f"{field.containing_type.name}.{field.name}")
        if bound is not None and number not in bound:
            raise ModelConfigError(f"{path} is {number}, expected {bound} for {message.name}")


def _values(message: Message, prefix: str) -> Iterator[tuple[str, FieldDescriptor, Any]]:
    """Yield (path, field, value) of every field that is set and is not a message."""
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if field.message_type is not None:
            for inner in _messages(field, value):
                yield from _values(inner, f"{path}.")
        else:
            for one in value if field.is_repeated else (value,):
                yield path, field, one


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    """Yield the messages that a message field holds: one, several, or the values of a map."""
    if field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()
    elif field.is_repeated:
        yield from value
    else:
        yield value
