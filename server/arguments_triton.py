# SPDX-License-Identifier: Apache-2.0
"""Options that are accepted for scripts written for tritonserver: without effect, refused with a reason, or deprecated."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import NoReturn

#: the description of these options' group in --help
TRITON_GROUP = "The log names those that are given and have no effect, or are deprecated."

#: options without effect, by the reason; the log names those that are given
_IGNORED = {
    "the backends are part of the server": ("--backend-directory",),
    "settings of backends are in each model's config.pbtxt": ("--backend-config",),
    "use --http-infer-thread-count": ("--http-thread-count",),
    "gRPC messages are not pooled": (
        "--grpc-infer-allocation-pool-size",
        "--grpc-max-response-pool-size",
    ),
    "this server has no buffer manager": ("--buffer-manager-thread-count",),
    "a load that fails is not repeated": ("--model-load-retry-count",),
    "no GPU is used": ("--min-supported-compute-capability", "--model-load-gpu-limit", "--enable-peer-access"),
    "there are no pools of pinned or CUDA memory": (
        "--pinned-memory-pool-byte-size",
        "--cuda-memory-pool-byte-size",
        "--cuda-virtual-address-size",
    ),
    "there are no host policies": ("--host-policy",),
    "agents are not loaded from libraries": ("--repoagent-directory",),
    "there is no response cache": ("--cache-config", "--cache-directory", "--response-cache-byte-size"),
    "there is no rate limiter": ("--rate-limit", "--rate-limit-resource", "--rate-limit-priority"),
    "there is no SageMaker front end": ("--sagemaker-port", "--sagemaker-safe-port-range", "--sagemaker-thread-count"),
    "there is no Vertex AI front end": ("--vertex-ai-port", "--vertex-ai-thread-count", "--vertex-ai-default-model"),
}
#: boolean options that must be false, because what they would switch on does not exist here
_ONLY_FALSE = {
    "--allow-sagemaker": "there is no SageMaker front end here",
    "--allow-vertex-ai": "there is no Vertex AI front end here",
    "--model-namespacing": "models of one name in several repositories cannot be served here",
}
#: options that are refused with any value
_REFUSED = {"--model-config-name": "only config.pbtxt is read here, no other configuration of a model"}
#: deprecated options, and the beginning of the setting of --trace-config that replaces each
_DEPRECATED_TRACE = {
    "--trace-file": "triton,file=",
    "--trace-level": "level=",
    "--trace-rate": "rate=",
    "--trace-count": "count=",
    "--trace-log-frequency": "triton,log-frequency=",
}


def boolean(text: str) -> bool:
    """Parse a boolean as tritonserver does: 1, true, on, yes or 0, false, off, no. Raises argparse.ArgumentTypeError."""
    word = text.lower()
    if word in ("1", "true", "on", "yes"):
        return True
    if word in ("0", "false", "off", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def add_triton_arguments(parser: argparse._ActionsContainer) -> None:
    """Add these options to a parser or group.

    Parsing collects the names of those without effect in `ignored_options`, and settings of --trace-config in
    `deprecated_trace`.
    """
    for name, reason in ((name, reason) for reason, names in _IGNORED.items() for name in names):
        named: Callable[[str], str] = partial(_name, name)
        parser.add_argument(
            name, nargs="?", const="", type=named, action="append", dest="ignored_options", default=[], metavar="VALUE",
            help=f"no effect: {reason}",
        )  # fmt: skip
    for name, reason in _ONLY_FALSE.items():
        parser.add_argument(
            name, nargs="?", const="true", type=partial(_false, reason), default=False, dest="_", metavar="BOOL",
            help=f"must be false: {reason} (default: false)",
        )  # fmt: skip
    for name, reason in _REFUSED.items():
        parser.add_argument(name, type=partial(_refuse, reason), dest="_", metavar="NAME", help=f"refused: {reason}")
    for name, setting in _DEPRECATED_TRACE.items():
        says: Callable[[str], str] = setting.__add__
        parser.add_argument(
            name, type=says, action="append", dest="deprecated_trace", default=[], metavar="VALUE",
            help=f"deprecated: write --trace-config={setting}VALUE",
        )  # fmt: skip


def _name(name: str, _value: str) -> str:
    return name


def _false(reason: str, text: str) -> bool:
    if boolean(text):
        raise argparse.ArgumentTypeError(f"{reason}; leave the option out, or give false")
    return False


def _refuse(reason: str, _value: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{reason}; leave the option out")
