# SPDX-License-Identifier: Apache-2.0
"""The choice of requests to trace: --trace-config, TraceSetting's changes for all models and for one, and the counters.

global   rate=1000 count=-1 level=OFF        the command line's settings, as changed by TraceSetting
model m  rate=1                              only the settings made for m; the others are the global ones
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypersonic.server.errors import InvalidRequestError, StartError
from hypersonic.server.limits.bounds import MOST_DIGITS
from hypersonic.server.observe.tracing.url import traces_url

TRITON, OPENTELEMETRY = "triton", "opentelemetry"
OFF, TIMESTAMPS = "OFF", "TIMESTAMPS"
#: the values that tritonserver accepts for the level, in lower case, without TENSORS -> whether requests are traced
_LEVELS = dict.fromkeys(("timestamps", "true", "on", "min", "max"), True) | dict.fromkeys(("off", "false"), False)
#: settings that are numbers: name -> (field of TraceSettings, least value)
_NUMBERS = {"rate": ("rate", 0), "count": ("count", -1), "triton,log-frequency": ("log_frequency", 0)}
#: settings of mode opentelemetry: name -> default shown, as Triton's
_BATCH = {"bsp_max_queue_size": "2048", "bsp_schedule_delay": "5000", "bsp_max_export_batch_size": "512"}
_EXPECTED = (
    "mode=triton|opentelemetry, level=OFF|TIMESTAMPS, rate=<requests>, count=<traces>, triton,file=<path>, "
    f"triton,log-frequency=<traces>, or opentelemetry,<setting>=<value> with url, resource=<key>=<value> or {', '.join(_BATCH)}"
)
#: setting -> new value; None means the inherited value
Change = Mapping[str, Any]


@dataclass(frozen=True)
class TraceSettings:
    """The settings of one model, or the global ones.

    Attributes:
        enabled: the level is TIMESTAMPS, not OFF.
        rate: one of every `rate` requests is traced.
        count: the number of traces left, -1 = no limit.
        log_frequency: traces per file, 0 = one file.
    """

    enabled: bool = False
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0


@dataclass(frozen=True)
class TraceConfig:
    """The value of --trace-config.

    Attributes:
        file: for mode triton.
        exporter: settings for mode opentelemetry, in the order given.
    """

    mode: str = TRITON
    settings: TraceSettings = field(default_factory=TraceSettings)
    file: str = ""
    exporter: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, texts: Sequence[str], deprecated: Sequence[str] = ()) -> TraceConfig:
        """Parse `setting=value` and `mode,setting=value`.

        A setting in `texts` overrides it.

        Args:
            deprecated: the same texts from --trace-level and similar options.

        Raises:
            StartError: (exit code 2).
        """
        config = cls()
        for text in (*deprecated, *texts):
            config = _with(config, text)
        return config


def _with(config: TraceConfig, text: str) -> TraceConfig:
    name, _, value = text.partition("=")
    changed: dict[str, Any] = {}
    if name in _NUMBERS:
        number, least = _NUMBERS[name]
        changed[number] = _number(text, value, least)
    elif name == "level" and value.lower() in _LEVELS:
        changed["enabled"] = _LEVELS[value.lower()]
    elif name == "mode" and value.lower() in (TRITON, OPENTELEMETRY):
        return replace(config, mode=value.lower())
    elif name == "triton,file":
        return replace(config, file=value)
    elif name.startswith(f"{OPENTELEMETRY},"):
        setting = name.removeprefix(f"{OPENTELEMETRY},")
        _check_exporter(text, setting, value)
        return replace(config, exporter=(*config.exporter, (setting, value)))
    else:
        raise StartError(f"--trace-config is {text!r}, expected {_EXPECTED}")
    return replace(config, settings=replace(config.settings, **changed))


def _check_exporter(text: str, setting: str, value: str) -> None:
    if setting in _BATCH:
        _number(text, value, 1)
    elif setting == "url":
        traces_url(value)
    elif setting != "resource" or "=" not in value:
        raise StartError(f"--trace-config is {text!r}, expected {_EXPECTED}")


def _number(text: str, value: str, least: int) -> int:
    if value.removeprefix("-").isdecimal() and len(value) <= MOST_DIGITS and least <= int(value) < 1 << 31:
        return int(value)
    raise StartError(f"--trace-config is {text[:200]!r}, expected a number from {least} to {(1 << 31) - 1}")


class Sampler:
    """Counts requests and samples them by one group of settings. Any thread may use it."""

    def __init__(self, settings: TraceSettings, seen: int = 0) -> None:
        self._settings = settings
        self._left = settings.count
        self._seen = seen
        self._lock = threading.Lock()

    @property
    def settings(self) -> TraceSettings:
        """The settings; `count` is the number of traces left."""
        return replace(self._settings, count=self._left)

    @property
    def seen(self) -> int:
        """The number of requests counted so far."""
        return self._seen

    def sample(self, *, forced: bool) -> bool:
        """Count a request and return whether it is traced.

        Args:
            forced: True if its client traces it and expects the server to.
        """
        settings = self._settings
        if not settings.enabled:
            return False
        with self._lock:
            self._seen += 1
            due = settings.rate > 0 and self._seen % settings.rate == 0 and self._left != 0
            if due and self._left > 0:
                self._left -= 1
            return due or forced


class TraceControl:
    """All settings in force.

    Attributes:
        active: True if any model may have a request traced; read without a lock.
    """

    def __init__(self, config: TraceConfig) -> None:
        self.config = config
        #: model -> the settings that were changed for it; "" = globally
        self._changed: dict[str, dict[str, Any]] = {}
        #: model -> its sampler, for models with settings of their own; "" = the one of all others
        self._samplers = {"": Sampler(config.settings)}
        self._lock = threading.Lock()
        self.active = config.settings.enabled

    def _sampler(self, model: str) -> Sampler:
        return self._samplers.get(model) or self._samplers[""]

    def sample(self, model: str, *, forced: bool) -> bool:
        """Return whether this request to the model is traced."""
        return self._sampler(model).sample(forced=forced)

    def settings(self, model: str = "") -> TraceSettings:
        """Return the settings in force for a model; "" = the global ones."""
        return self._sampler(model).settings

    def update(self, change: Change, model: str = "") -> None:
        """Change some settings, globally or for one model; None restores the inherited value. All are changed, or none.

        Raises InvalidRequestError (INVALID_ARGUMENT) for settings that contradict each other.
        """
        with self._lock:
            own = {name: value for name, value in {**self._changed.get(model, {}), **change}.items() if value is not None}
            base = self._samplers[""].settings if model else self.config.settings
            self._check(replace(base, **own))
            if own or not model:
                sampler = self._samplers.get(model)
                kept = {} if "count" in change or sampler is None else {"count": sampler.settings.count}
                self._changed[model] = own
                self._samplers[model] = Sampler(replace(base, **{**own, **kept}), sampler.seen if sampler else 0)
            else:
                self._changed.pop(model, None)
                self._samplers.pop(model, None)
            if not model:
                for name in self._samplers.keys() - {""}:
                    inherited = replace(self._samplers[""].settings, **self._changed[name])
                    self._samplers[name] = Sampler(inherited, self._samplers[name].seen)
            self.active = any(sampler.settings.enabled for sampler in self._samplers.values())

    def _check(self, settings: TraceSettings) -> None:
        problem = ""
        if settings.enabled and not settings.rate:
            problem = "sample rate must be non-zero"
        elif settings.enabled and self.config.mode == TRITON and not self.config.file:
            problem = "trace file name is not given"
        if problem:
            raise InvalidRequestError(f"Attempting to set invalid trace setting :{problem}")

    def shown(self, model: str = "") -> dict[str, list[str]]:
        """Return TraceSetting's answer: setting -> values."""
        settings = self.settings(model)
        common = {
            "trace_level": [TIMESTAMPS if settings.enabled else OFF],
            "trace_rate": [str(settings.rate)],
            "trace_count": [str(settings.count)],
        }
        if self.config.mode == TRITON:
            files = {"log_frequency": [str(settings.log_frequency)], "trace_file": [self.config.file]}
            return {**common, **files, "trace_mode": [TRITON]}
        exporter: dict[str, list[str]] = {}
        for name, value in self.config.exporter:
            exporter[name] = [*exporter[name], value] if name == "resource" and name in exporter else [value]
        return {**common, "trace_mode": [OPENTELEMETRY], **{k: [v] for k, v in _BATCH.items()}, **exporter}
