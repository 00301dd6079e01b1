# SPDX-License-Identifier: Apache-2.0
"""Converts protobuf messages into JSON as Triton's HTTP port writes it.

It differs from protobuf's own mapping: 64-bit integers are numbers, field names are those of the .proto file, and every field
is present except unset messages and unset members of a oneof.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def to_json(message: Message) -> dict[str, Any]:
    """Return a message as a JSON object. Bytes become base64, enums their names."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields if _shown(message, field)}


def _shown(message: Message, field: FieldDescriptor) -> bool:
    return field.is_repeated or not field.has_presence or message.HasField(field.name)


def _field(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of_value = field.message_type.fields_by_name["value"]
        return {str(key): _value(of_value, value[key]) for key in value}
    return [_value(field, item) for item in value] if field.is_repeated else _value(field, value)


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return to_json(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return value
