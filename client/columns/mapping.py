# SPDX-License-Identifier: Apache-2.0
"""Column mappings: which columns of a file are which features of a model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypersonic.client.columns.errors import MappingError
from hypersonic.client.columns.table import Table
from hypersonic.client.specs import ModelSpec, TensorSpec


@dataclass(frozen=True)
class FromColumn:
    """A feature that is a column.

    Attributes:
        help: what the error says when the column is missing.
    """

    column: str
    help: str = ""
    width: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.column,)


@dataclass(frozen=True)
class OneHot:
    """A feature for each value: 1 where the column has it, otherwise 0."""

    column: str
    values: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.column,)


@dataclass(frozen=True)
class Constant:
    """A feature that is the same number in every row."""

    value: float
    width: int = 1
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class FromTable:
    """A feature that is looked up in a table by integer columns."""

    table: Table
    width: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.table.keys


@dataclass(frozen=True)
class Block:
    """Several features that are one column with `width` numbers per row."""

    column: str
    width: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.column,)


Feature = FromColumn | OneHot | Constant | FromTable | Block


@dataclass(frozen=True)
class ColumnMapping:
    """A model's features as columns of a file.

    Attributes:
        features: in the model's order.
        collection: the prefix of the column names, such as DigiHB for DigiHB_fc0; its columns are jagged. "": the columns have
            their full names, and are all flat, a row per event, or all jagged.
        input: the model's input; "": its only one.
        filter: a column that is true for the rows to send; "": all.
        fill: the output for rows that are not sent.
        finite: refuse NaN and infinity.
        output: the column of the only output; "": its name.
        outputs: the columns of several outputs, by their names. Column names are given without the collection, as for features.
        name: for messages.
    """

    features: tuple[Feature, ...]
    collection: str = ""
    input: str = ""
    filter: str = ""
    fill: float = math.nan
    finite: bool = False
    output: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    name: str = "the mapping"

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(feature.width for feature in self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """The full names of the columns that are read, each once."""
        names = [name for feature in self.features for name in feature.columns] + [self.filter] * bool(self.filter)
        return tuple(dict.fromkeys(self.full_name(name) for name in names))

    def full_name(self, column: str) -> str:
        """Return a column's name: DigiHB_fc0, which find_columns() also finds if the file has DigiHB.fc0."""
        return f"{self.collection}_{column}" if self.collection else column

    def output_name(self, output: str) -> str:
        """Return the column name of a model's output."""
        return self.full_name(self.outputs.get(output) or self.output or re.sub(r"\W", "_", output))

    def help_for(self, full_name: str) -> str:
        """Return what the mapping says about a missing column; "" if nothing."""
        helps = (f.help for f in self.features if isinstance(f, FromColumn) and self.full_name(f.column) == full_name)
        return next(filter(None, helps), "")

    def labels(self) -> Iterator[str]:
        """Yield a name for each feature, for messages."""
        for feature in self.features:
            if isinstance(feature, OneHot):
                yield from (f"{self.full_name(feature.column)} == {value}" for value in feature.values)
            elif isinstance(feature, Block):
                yield from (f"{self.full_name(feature.column)}[{place}]" for place in range(feature.width))
            elif isinstance(feature, FromTable):
                yield f"{feature.table.value} of {feature.table.path}"
            else:
                yield "a constant" if isinstance(feature, Constant) else self.full_name(feature.column)

    def as_data(self) -> dict[str, Any]:
        """Return the mapping as JSON data: equal for mappings that make the same rows and outputs."""
        return {
            "collection": self.collection,
            "input": self.input,
            "filter": self.filter,
            "fill": str(self.fill),
            "features": [_as_data(feature) for feature in self.features],
            "outputs": {"": self.output} if self.output else dict(self.outputs),
        }


def _as_data(feature: Feature) -> Any:
    match feature:
        case FromColumn(column):
            return column
        case OneHot(column, values):
            return {"one_hot": column, "values": list(values)}
        case Constant(value):
            return {"constant": str(value)}
        case Block(column, width):
            return {"block": column, "width": width}
        case FromTable(table):
            return {"table": table.digest, "keys": list(table.keys), "value": table.value}


def find_input(mapping: ColumnMapping, spec: ModelSpec) -> TensorSpec:
    """Return the model's input that the mapping is for. Raises MappingError if it does not have the mapping's features."""
    if not spec.max_batch_size:
        raise MappingError(f"model {spec.name!r} takes no batches, and columns are sent as batches of rows")
    needed = [tensor for tensor in spec.inputs if not tensor.optional] or list(spec.inputs)
    if mapping.input:
        chosen = [tensor for tensor in spec.inputs if tensor.name == mapping.input]
        if not chosen:
            names = ", ".join(tensor.name for tensor in spec.inputs)
            raise MappingError(f"{mapping.name}: model {spec.name!r} has no input {mapping.input!r}, only {names}")
    else:
        chosen = needed
    if len(chosen) != 1 or any(tensor not in chosen for tensor in needed):
        names = ", ".join(tensor.name for tensor in needed)
        raise MappingError(f"model {spec.name!r} needs the inputs {names}, and a mapping is for one input")
    (tensor,) = chosen
    if tensor.datatype == "BYTES" or -1 in tensor.shape:
        raise MappingError(
            f"input {tensor.name!r} of model {spec.name!r} is {tensor.datatype} of shape {tensor.shape}, expected numbers of a "
            "fixed shape"
        )
    if mapping.width != (size := math.prod(tensor.shape)):
        raise MappingError(
            f"{mapping.name} has {mapping.width} features, and input {tensor.name!r} of model {spec.name!r} takes {size}"
        )
    return tensor
