# SPDX-License-Identifier: Apache-2.0
"""Options that only scripts written for tritonserver give: taken without a meaning, refused with a reason, or deprecated."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import NoReturn

#: nothing here depends on them; the log names those that are given
_IGNORED = (
    "--backend-directory",
    "--backend-config",
    "--min-supported-compute-capability",
    "--http-thread-count",
    "--grpc-infer-allocation-pool-size",
    "--grpc-max-response-pool-size",
    "--buffer-manager-thread-count",
    "--model-load-retry-count",
    "--model-load-gpu-limit",
    "--pinned-memory-pool-byte-size",
    "--cuda-memory-pool-byte-size",
    "--cuda-virtual-address-size",
    "--enable-peer-access",
    "--host-policy",
    "--repoagent-directory",
    "--cache-config",
    "--cache-directory",
    "--response-cache-byte-size",
    "--rate-limit",
    "--rate-limit-resource",
    "--rate-limit-priority",
    "--sagemaker-port",
    "--sagemaker-safe-port-range",
    "--sagemaker-thread-count",
    "--vertex-ai-port",
    "--vertex-ai-thread-count",
    "--vertex-ai-default-model",
)
#: may be false; true would promise what is not there
_ONLY_FALSE = {
    "--allow-sagemaker": "there is no SageMaker front end here",
    "--allow-vertex-ai": "there is no Vertex AI front end here",
    "--model-namespacing": "models of one name in several repositories cannot be served here",
}
#: refused, whatever the value
_REFUSED = {"--model-config-name": "only config.pbtxt is read here, no other configuration of a model"}
#: what --trace-config says in their place
_DEPRECATED_TRACE = {
    "--trace-file": "triton,file=",
    "--trace-level": "level=",
    "--trace-rate": "rate=",
    "--trace-count": "count=",
    "--trace-log-frequency": "triton,log-frequency=",
}


def boolean(text: str) -> bool:
    """tritonserver's booleans. Raises argparse.ArgumentTypeError."""
    word = text.lower()
    if word in ("1", "true", "on", "yes"):
        return True
    if word in ("0", "false", "off", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def add_triton_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser, without help.

    Into `ignored_options` go the names of those without a meaning, into `deprecated_trace` what --trace-config would say.
    """
    hidden = argparse.SUPPRESS
    for name in _IGNORED:
        named: Callable[[str], str] = partial(_name, name)
        parser.add_argument(
            name, nargs="?", const="", type=named, action="append", dest="ignored_options", default=[], help=hidden
        )
    for name, reason in _ONLY_FALSE.items():
        parser.add_argument(name, nargs="?", const="true", type=partial(_false, reason), default=False, dest="_", help=hidden)
    for name, reason in _REFUSED.items():
        parser.add_argument(name, type=partial(_refuse, reason), dest="_", help=hidden)
    for name, setting in _DEPRECATED_TRACE.items():
        says: Callable[[str], str] = setting.__add__
        parser.add_argument(name, type=says, action="append", dest="deprecated_trace", default=[], help=hidden)


def _name(name: str, _value: str) -> str:
    return name


def _false(reason: str, text: str) -> bool:
    if boolean(text):
        raise argparse.ArgumentTypeError(f"{reason}; leave the option out, or give false")
    return False


def _refuse(reason: str, _value: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{reason}; leave the option out")
