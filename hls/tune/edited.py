# SPDX-License-Identifier: Apache-2.0
"""Changes values in the text of a YAML file, and leaves its comments where they are."""

from __future__ import annotations

import json
from collections.abc import Iterable

import yaml

from hypersonic.hls.errors import Edit


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text of a YAML file of nested mappings with the edits. A mapping that becomes empty is removed too."""
    for edit in edits:
        text = _without(text, edit.place) if edit.value is None else _with(text, edit.place, edit.value)
    return text


def _with(text: str, place: tuple[str, ...], value: str | int) -> str:
    found, depth = _find(text, place)
    if depth == len(place):
        node = found[-1][1]
        return text[: node.start_mark.index] + _scalar(value) + text[node.end_mark.index :]
    parent = _mapping_of(text, found)
    missing = place[depth:]
    if parent.flow_style:
        end = parent.end_mark.index - 1
        return f"{text[:end].rstrip()}{', ' if parent.value else ''}{_flow(missing, value)}{text[end:]}"
    column = parent.value[0][0].start_mark.column
    end = _end_of_line(text, _last_of(parent))
    return f"{text[:end]}\n{_block(missing, value, column)}{text[end:]}"


def _without(text: str, place: tuple[str, ...]) -> str:
    found, depth = _find(text, place)
    if depth < len(place):
        return text
    parent = _mapping_of(text, found[:-1])
    if len(parent.value) == 1 and len(place) > 1:
        return _without(text, place[:-1])
    key, node = found[-1]
    if not parent.flow_style:
        begin = text.rindex("\n", 0, key.start_mark.index) + 1 if "\n" in text[: key.start_mark.index] else 0
        return text[:begin] + text[_end_of_line(text, _last_of(node)) + 1 :]
    names = [each.value for each, _ in parent.value]
    index = names.index(key.value)
    if index + 1 < len(names):
        return text[: key.start_mark.index] + text[parent.value[index + 1][0].start_mark.index :]
    return text[: parent.value[index - 1][1].end_mark.index] + text[node.end_mark.index :]


def _find(text: str, place: tuple[str, ...]) -> tuple[list[tuple[yaml.Node, yaml.Node]], int]:
    """Return the (key, value) nodes along a place, as far as the text has its keys, and the number of keys found."""
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    found: list[tuple[yaml.Node, yaml.Node]] = []
    for key in place:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        pair = next((each for each in pairs if str(each[0].value) == key), None)
        if pair is None:
            break
        found.append(pair)
        node = pair[1]
    return found, len(found)


def _mapping_of(text: str, found: list[tuple[yaml.Node, yaml.Node]]) -> yaml.MappingNode:
    node = found[-1][1] if found else yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    return node


def _last_of(node: yaml.Node) -> int:
    """Return the index after a node's last scalar or flow mapping; a block mapping's end mark is after its comments."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_of(node.value[-1][1])
    return int(node.end_mark.index)


def _end_of_line(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _scalar(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)


def _name(key: str) -> str:
    return key if key.isidentifier() and yaml.safe_load(key) == key else _scalar(key)


def _flow(place: tuple[str, ...], value: str | int) -> str:
    *outer, last = place
    inner = f"{_name(last)}: {_scalar(value)}"
    for key in reversed(outer):
        inner = f"{_name(key)}: {{{inner}}}"
    return inner


def _block(place: tuple[str, ...], value: str | int, column: int) -> str:
    """Return the new lines: one for each outer key, and the settings of a layer as a flow mapping on one line."""
    first, *rest = place
    if not rest:
        return f"{' ' * column}{_name(first)}: {_scalar(value)}"
    if first in ("LayerName", "hls4ml"):
        return f"{' ' * column}{first}:\n{_block(tuple(rest), value, column + 2)}"
    return f"{' ' * column}{_name(first)}: {{{_flow(tuple(rest), value)}}}"
