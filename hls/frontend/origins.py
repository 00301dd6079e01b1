# SPDX-License-Identifier: Apache-2.0
"""Adds the names that the model's file has for its nodes to errors that name the layers drawn from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hypersonic.hls.errors import UnsupportedLayerError

_LAYER = re.compile(r"layer '([^']+)'")


@contextmanager
def with_origins(origins: Mapping[str, str]) -> Iterator[None]:
    """Turn "layer 'Conv_0'" into "layer 'Conv_0' (node '/stem/Conv')" in an UnsupportedLayerError raised inside the context.

    A layer that was added for another (Conv_0_zeros) has the other's.

    Args:
        origins: the file's name by the layer's.
    """
    try:
        yield
    except UnsupportedLayerError as error:
        text = _LAYER.sub(lambda match: match[0] + _node(origins, match[1]), str(error))
        raise UnsupportedLayerError(text, error.edits) from error


def _node(origins: Mapping[str, str], layer: str) -> str:
    fitting = [name for name in origins if layer == name or layer.startswith(f"{name}_")]
    return f" (node {origins[max(fitting, key=len)]!r})" if fitting else ""
