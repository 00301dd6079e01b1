# SPDX-License-Identifier: Apache-2.0
"""YAML without Python tags and without duplicate keys. It is the only module that imports yaml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml

from hypersonic.client.columns.errors import MappingError


def load_yaml(text: str, name: str) -> Any:
    """Return the data of a YAML text.

    Raises MappingError.

    Args:
        name: for messages.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader that refuses duplicate keys
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a date that does not exist
        raise MappingError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, count in keys.items() if count > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)
