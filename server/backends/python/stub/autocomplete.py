# SPDX-License-Identifier: Apache-2.0
"""ModelConfig: the configuration that a model's auto_complete_config() fills in. Texts of errors are Triton's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_Tensor = dict[str, Any]


class ModelConfig:
    """The model's configuration so far; a field that is already set cannot be changed."""

    def __init__(self, model_config: str) -> None:
        """Read the configuration from JSON text."""
        self._config: dict[str, Any] = json.loads(model_config)

    @property
    def _name(self) -> str:
        return str(self._config["name"])

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration, which the caller must not modify."""
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Set max_batch_size. Raises ValueError if the configuration has a larger one."""
        given = self._config["max_batch_size"]
        if given > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {given}, but in auto-complete-config function for model "
                f"'{self._name}' specified max_batch_size {max_batch_size}"
            )
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Enable dynamic batching, unless it is enabled. Raises ValueError if the configuration names another scheduler."""
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{scheduler}', but auto-complete-config function for model "
                    f"'{self._name}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, transaction_policy_dict: Mapping[str, Any]) -> None:
        """Set {"decoupled": bool}. Raises ValueError for other keys, or for a change of a value that is set."""
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                "model transaction property in auto-complete-config function for model "
                f"'{self._name}' contains property other than 'decoupled'."
            )
        policy = self._config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        decoupled = transaction_policy_dict["decoupled"]
        if policy.setdefault("decoupled", decoupled) != decoupled:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model '{self._name}', which is already set "
                f"to '{policy['decoupled']}'."
            )

    def add_input(self, input: _Tensor) -> None:  # noqa: A002 - Triton's name
        """Add an input: name, data_type, dims, and optionally `optional`. Raises ValueError."""
        self._add("input", input, ("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'")

    def add_output(self, output: _Tensor) -> None:
        """Add an output: name, data_type and dims. Raises ValueError."""
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def _add(self, kind: str, tensor: _Tensor, known: tuple[str, ...], names: str) -> None:
        where = f"in auto-complete-config function for model '{self._name}'"
        if any(key not in known for key in tensor):
            raise ValueError(f"{kind} '{tensor.get('name', '')}' {where} contains property other than {names}.")
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                which = f"{kind} '{tensor['name']}'" if "name" in tensor else kind
                raise ValueError(f"{which} {where} is missing '{key}' property.")
        for given in self._config[kind]:
            if given["name"] == tensor["name"]:
                self._merge(kind, given, tensor)
                return
        self._config[kind].append(dict(tensor))

    def _merge(self, kind: str, given: _Tensor, tensor: _Tensor) -> None:
        what = f"model '{self._name}', tensor '{tensor['name']}': the model expects"
        if given["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                f"unable to load model '{self._name}', configuration expects datatype {given['data_type']} for {kind} "
                f"'{tensor['name']}', model provides {tensor['data_type']}"
            )
        if given["dims"] and given["dims"] != tensor["dims"]:
            raise ValueError(f"{what} dims {tensor['dims']} but the model configuration specifies dims {given['dims']}")
        optional = given.get("optional")
        if "optional" in tensor and optional is not None and optional != tensor["optional"]:
            raise ValueError(f"{what} optional {tensor['optional']} but the model configuration specifies optional {optional}")
        given.update(tensor)
