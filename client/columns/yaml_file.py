# SPDX-License-Identifier: Apache-2.0
"""Reads column mappings from YAML files. Unknown keys, wrong types and duplicates are refused."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypersonic.client.columns.errors import MappingError, needs, suggest
from hypersonic.client.columns.mapping import Block, ColumnMapping, Constant, Feature, FromColumn, FromTable, OneHot
from hypersonic.client.columns.table import read_table

_HERE = Path(__file__).parent
_COLUMNS = re.compile(r"(.*?)(\d+)\.\.\1(\d+)")
_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)")
#: the most columns or values of a range
_MOST = 100_000


def shipped_mappings() -> dict[str, Path]:
    """Return the mappings that come with the package, by model name."""
    return {file.stem: file for file in sorted(_HERE.glob("*.yaml"))}


def read_mapping(path: str | Path) -> ColumnMapping:
    """Read a mapping from a YAML file, or the shipped one of a model: read_mapping("facile").

    Paths of tables are relative to the YAML file. Raises MappingError.
    """
    shipped = shipped_mappings()
    file = shipped[path] if isinstance(path, str) and path in shipped else Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(shipped)
        raise MappingError(f"the mapping {file} cannot be read: {error}; shipped mappings: {known}") from error
    return parse_mapping(text, str(file), file.parent)


def parse_mapping(text: str, name: str = "the mapping", directory: Path = Path()) -> ColumnMapping:
    """Return the mapping of a YAML text.

    Raises MappingError.

    Args:
        name: for messages.
        directory: of relative paths.
    """
    try:
        from hypersonic.client.columns.strict_yaml import load_yaml  # imports PyYAML
    except ModuleNotFoundError as error:
        raise MappingError(needs(f"the mapping {name}", error)) from error
    data = load_yaml(text, name)
    reader = _Reader(name, directory)
    return reader.mapping(data)


class _Reader:
    """Reads one mapping. Its errors begin with the mapping's name."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory

    def mapping(self, data: object) -> ColumnMapping:
        known = {
            "collection": self._word,
            "input": self._text,
            "filter": self._word,
            "fill": self._number,
            "finite": self._switch,
            "features": self._features,
            "output": self._word,
            "outputs": self._outputs,
        }
        given = self._keys(data, known, "the mapping")
        if "features" not in given:
            raise self._error("the key 'features' is missing")
        if "output" in given and "outputs" in given:
            raise self._error("the keys 'output' and 'outputs' are both given, expected one of them")
        return ColumnMapping(name=self.name, **given)

    def _keys(self, data: object, known: Mapping[str, Callable[[str, Any], Any]], what: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self._error(f"{what} is {_kind(data)}, expected keys and values")
        for key in data:
            if key not in known:
                raise self._error(f"{what} has the unknown key {key!r}; {suggest(str(key), known)}")
        return {key: known[key](key, value) for key, value in data.items()}

    def _features(self, key: str, data: object) -> tuple[Feature, ...]:
        if not isinstance(data, list) or not data:
            raise self._error(f"{key!r} is {_kind(data)}, expected a list of features")
        features = [feature for item in data for feature in self._feature(item)]
        names = Counter(feature.column for feature in features if isinstance(feature, FromColumn | Block))
        if twice := [name for name, count in names.items() if count > 1]:
            raise self._error(f"the feature {twice[0]!r} is given twice")
        if not any(feature.columns for feature in features):
            raise self._error("no feature is a column")
        return tuple(features)

    def _feature(self, item: object) -> list[Feature]:
        if isinstance(item, str):
            return [FromColumn(name) for name in self._columns(item)]
        kinds: dict[str, Callable[[dict[Any, Any]], Feature]] = {
            "column": self._from_column,
            "one_hot": self._one_hot,
            "constant": self._constant,
            "table": self._from_table,
            "block": self._block,
        }
        if not isinstance(item, dict) or len(found := [kind for kind in kinds if kind in item]) != 1:
            expected = ", ".join(kinds)
            raise self._error(f"a feature is {item!r}, expected a column's name or one of the keys {expected}")
        return [kinds[found[0]](item)]

    def _columns(self, text: str) -> list[str]:
        if match := _COLUMNS.fullmatch(text):
            return [f"{match[1]}{number}" for number in self._range(text, int(match[2]), int(match[3]))]
        return [self._word("features", text)]

    def _range(self, text: str, first: int, last: int) -> range:
        if not 0 <= last - first < _MOST:
            raise self._error(f"the range {text!r} goes from {first} to {last}, expected 1 to {_MOST} in rising order")
        return range(first, last + 1)

    def _from_column(self, item: dict[Any, Any]) -> Feature:
        return FromColumn(**self._keys(item, {"column": self._word, "help": self._text}, "a column"))

    def _one_hot(self, item: dict[Any, Any]) -> Feature:
        given = self._all(item, {"one_hot": self._word, "values": self._values}, "one_hot")
        return OneHot(given["one_hot"], given["values"])

    def _constant(self, item: dict[Any, Any]) -> Feature:
        return Constant(self._keys(item, {"constant": self._number}, "a constant")["constant"])

    def _block(self, item: dict[Any, Any]) -> Feature:
        given = self._all(item, {"block": self._word, "width": self._width}, "a block")
        return Block(given["block"], given["width"])

    def _from_table(self, item: dict[Any, Any]) -> Feature:
        given = self._all(item, {"table": self._text, "keys": self._names, "value": self._text}, "a table")
        return FromTable(read_table(self.directory / given["table"], given["keys"], given["value"]))

    def _all(self, item: dict[Any, Any], known: Mapping[str, Callable[[str, Any], Any]], what: str) -> dict[str, Any]:
        """The values by key. Raises MappingError unless all known keys are given."""
        given = self._keys(item, known, what)
        if missing := [key for key in known if key not in given]:
            raise self._error(f"{what} lacks the key {missing[0]!r}")
        return given

    def _values(self, key: str, value: object) -> tuple[int, ...]:
        if isinstance(value, str) and (match := _NUMBERS.fullmatch(value)):
            return tuple(self._range(value, int(match[1]), int(match[2])))
        if not isinstance(value, list) or not value or any(type(each) is not int for each in value):
            raise self._error(f"{key!r} is {value!r}, expected a range such as 1..7 or a list of integers")
        if len(set(value)) != len(value):
            raise self._error(f"{key!r} has a number twice: {value}")
        return tuple(value)

    def _names(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
            raise self._error(f"{key!r} is {value!r}, expected a list of different columns")
        return tuple(self._word(key, each) for each in value)

    def _outputs(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self._error(f"{key!r} is {_kind(value)}, expected the outputs' names and their columns")
        names = {self._text(key, name): self._word(key, column) for name, column in value.items()}
        if len(set(names.values())) != len(names):
            raise self._error(f"{key!r} gives two outputs the same column: {names}")
        return names

    def _word(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._error(f"{key!r} is {value!r}, expected a name of printable characters")
        return value

    def _text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise self._error(f"{key!r} is {value!r}, expected a text")
        return value

    def _number(self, key: str, value: object) -> float:
        if isinstance(value, str) and value.lower() in {"nan", "inf", "-inf"}:
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(f"{key!r} is {value!r}, expected a number")
        return float(value) if abs(value) < 1e300 or not math.isfinite(value) else math.copysign(math.inf, value)

    def _width(self, key: str, value: object) -> int:
        if type(value) is not int or value < 1:
            raise self._error(f"{key!r} is {value!r}, expected an integer of 1 or more")
        return value

    def _switch(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self._error(f"{key!r} is {value!r}, expected true or false")
        return value

    def _error(self, text: str) -> MappingError:
        return MappingError(f"{self.name}: {text}")


def _kind(value: object) -> str:
    kinds = {dict: "keys and values", list: "a list", str: "a text", type(None): "empty"}
    return kinds.get(type(value), type(value).__name__)
