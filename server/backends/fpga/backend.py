# SPDX-License-Identifier: Apache-2.0
"""Backend "fpga": a version directory with model.xclbin and manifest.json, and with weights.bin if the kernel loads its weights
at run time. The cards of this host run it.

In server/, only the files of this folder import `host` and `firmware`. config.pbtxt's parameters: slot_rows (rows of a slot),
slots (per compute unit), share (the model's weight when models compete for a card), timeout_ms (of a run), retry_ms (polling
interval while a card is lost). instance_group's gpus name the cards; by default, a card that already has the model's kernel is
used, otherwise the first free card (pool.py).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.firmware.card_parameters import SLOT_ROWS, SLOTS
from hypersonic.firmware.errors import FirmwareError, ManifestError, XclbinError
from hypersonic.firmware.publish.config_pbtxt import packed_rows
from hypersonic.firmware.publish.manifest import MAX_BYTES, WEIGHTS_NAME, Manifest, check_described
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.row import Row
from hypersonic.host import instance as host_instance
from hypersonic.host.errors import DeviceBusyError, DeviceError
from hypersonic.host.opening import card_set
from hypersonic.host.release import release_warning
from hypersonic.server.backends.fpga.held import PlacedModel, Wish
from hypersonic.server.backends.fpga.instance import FpgaInstance
from hypersonic.server.backends.fpga.on_demand import OnDemandModel, TurnPolicy
from hypersonic.server.backends.fpga.pool import CardPool
from hypersonic.server.backends.fpga.properties import FPGA
from hypersonic.server.backends.fpga.turns import Turns
from hypersonic.server.core.config.schema import ModelConfig, TensorConfig
from hypersonic.server.core.inference.backend import TurnQueue
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.core.links import Links
from hypersonic.server.errors import ModelBusyError, ModelLoadError

_LOG = logging.getLogger(__name__)
XCLBIN, MANIFEST = FPGA.model_file, "manifest.json"


class FpgaModel:
    """A model version on one or more cards, or one that takes turns on a card."""

    def __init__(
        self,
        instances: Sequence[FpgaInstance],
        cards: Sequence[CardStatus],
        closing: ExitStack,
        turns: OnDemandModel | None = None,
    ) -> None:
        """Create a FpgaModel.

        Args:
            cards: the card of each instance; empty for a model that takes turns.
        """
        self.instances = tuple(instances)
        self._cards = {instance.name: card for instance, card in zip(instances, cards, strict=not turns)}
        self._closing = closing
        self._turns = turns

    @property
    def standby(self) -> Sequence[FpgaInstance]:
        """Empty: there are no standby instances."""
        return ()

    def card(self, instance: object) -> CardStatus | None:
        """As LoadedModel.card."""
        if not isinstance(instance, FpgaInstance):
            return None
        return self._turns.card if self._turns is not None else self._cards[instance.name]

    def attach(self, queue: TurnQueue) -> Callable[[int], None] | None:
        """As TakesTurns.attach."""
        return self._turns.attach(queue) if self._turns is not None else None

    @property
    def residency(self) -> Residency | None:
        """As TakesTurns.residency."""
        return self._turns.residency if self._turns is not None else None

    def close(self) -> None:
        """Close the cards."""
        self._closing.close()


class FpgaBackend:
    """A Backend for version directories with an xclbin.

    Args:
        links: where a version's files may be.
        allow_emulated: load requests may bring an xclbin for an emulated card, whose simulator is native code.
    """

    def __init__(
        self,
        cards: CardPool | None = None,
        links: Links = Links(),  # noqa: B008 - immutable
        *,
        allow_emulated: bool = False,
    ) -> None:
        self._cards = cards or CardPool()
        self._turns = Turns(self._cards)
        self._links, self._allow_emulated = links, allow_emulated
        if warning := release_warning():
            _LOG.warning("%s", warning)

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Do nothing: a published model has a complete config.pbtxt."""

    def load(self, directory: Path, config: ModelConfig) -> FpgaModel:
        """Load a version and open its cards.

        Raises ModelLoadError for a damaged or foreign xclbin, for weights, a manifest or a configuration that do not match it,
        and for a missing card; ModelBusyError if all cards are taken.
        """
        try:
            with ExitStack() as opened:
                closing = ExitStack()
                manifest = self._manifest(directory)
                if manifest.accepted:
                    text = "'%s' version %s is far from the trained model, which its build accepted: %s"
                    _LOG.warning(text, config.name, directory.name, manifest.accepted)
                xclbin = self._follow(directory, XCLBIN)
                contents = self._check(directory, manifest)
                _check_config(config, manifest)
                weights = self._follow(directory, WEIGHTS_NAME) if manifest.weights_bytes else None
                slots, slot_rows = config.integer("slots", SLOTS), config.integer("slot_rows", SLOT_ROWS)
                host_instance.check_room(contents, manifest, manifest.compute_units, slots, slot_rows)
                open_instances = partial(
                    host_instance.open_instances, manifest=manifest, slots=slots, slot_rows=slot_rows, weights=weights,
                    share=config.number("share", 1.0),
                )  # fmt: skip
                policy = TurnPolicy.of(config)
                check = partial(self._check, directory, manifest)
                kind, moves = card_set(contents), policy is not None
                wish = Wish(config.name, manifest, contents, xclbin, open_instances, check, kind, moves)
                if policy is not None:
                    turns = self._turns.admit(wish, policy)
                    opened.callback(self._turns.remove, turns)
                    model = _moving(turns, manifest, config, closing)
                else:
                    places = self._cards.place(wish, config.devices)
                    for place in places:
                        opened.callback(place.close)
                    model = _model(places, manifest, config, closing)
                closing.push(opened.pop_all())  # until here, an error gives the cards back
                return model
        except XclbinError as error:
            raise ModelLoadError(f"{directory.name}/{XCLBIN}: {_unresolved(error, directory)}") from error
        except DeviceBusyError as error:
            raise ModelBusyError(_unresolved(error, directory)) from error
        except (FirmwareError, DeviceError) as error:
            raise ModelLoadError(_unresolved(error, directory)) from error
        except OSError as error:
            raise ModelLoadError(f"{directory.name}/{Path(error.filename or '').name}: {error.strerror}") from error

    def _check(self, directory: Path, manifest: Manifest) -> Xclbin:
        """Return the description of the version's xclbin.

        Raises FirmwareError, ModelLoadError, OSError if it is not the one that was published.
        """
        with self._links.opened(directory / XCLBIN, directory.parent, f"{directory.name}/{XCLBIN}") as file:
            contents = Xclbin.read_open(file, image=False)
            if contents.target.emulated and not self._allow_emulated and self._links.uploaded(directory):
                raise ModelLoadError(
                    f"an xclbin for an emulated card (target {contents.target}) is not accepted over the network: its "
                    "simulator is native code, which runs in the server's process. Put it into the model repository, or start "
                    "the server with '--allow-emulated-override=true'"
                )
            file.seek(0)
            return check_described(manifest, contents, hashlib.file_digest(file, "sha256").hexdigest())

    def _manifest(self, directory: Path) -> Manifest:
        """Read the manifest. Raises ManifestError, ModelLoadError, OSError."""
        what = f"{directory.name}/{MANIFEST}"
        text = self._links.read(directory / MANIFEST, directory.parent, what, MAX_BYTES)
        try:
            return Manifest.parse(text)
        except ManifestError as error:
            raise ManifestError(f"{what}: {error}") from error

    def _follow(self, directory: Path, name: str) -> Path:
        """Return a file's path with links resolved, since XRT opens it by path. Raises ModelLoadError."""
        return self._links.follow(directory / name, directory.parent, f"{directory.name}/{name}")


def _unresolved(error: Exception, directory: Path) -> str:
    """Return an error's text with the repository's file names: clients are not told where links lead."""
    text = str(error)
    for name in (XCLBIN, WEIGHTS_NAME):
        text = text.replace(str((directory / name).resolve()), str(directory / name))
    return text


def _check_config(config: ModelConfig, manifest: Manifest) -> None:
    if config.max_batch_size < 1:
        raise ModelLoadError(f"model '{config.name}': max_batch_size is 0, expected 1 or more: a kernel takes rows")
    _check_layout(config, manifest.inputs)
    for kind, tensors, row in (("input", config.inputs, manifest.inputs), ("output", config.outputs, manifest.outputs)):
        if any(tensor.optional for tensor in tensors):
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt has {kind} {_describe(tensors)}, but a kernel takes every input of every "
                "request: correct config.pbtxt"
            )
        if tensors != _expected(row):
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt has {kind} {_describe(tensors)}, but the manifest has "
                f"{_describe(_expected(row))}: correct config.pbtxt or publish the model again"
            )


def _check_layout(config: ModelConfig, inputs: Row) -> None:
    """Raise ModelLoadError if the layout of packed rows that clients see differs from the kernel's."""
    for name, expected in packed_rows(inputs).items():
        if config.parameters.get(name) != expected:
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt's parameter {name} is {config.parameters.get(name, 'missing')!r:.80}, "
                f"the manifest has {expected!r:.80}: correct config.pbtxt or publish the model again"
            )


def _expected(row: Row) -> tuple[TensorConfig, ...]:
    return tuple(TensorConfig(tensor.name, tensor.datatype, tensor.shape) for tensor in row.tensors)


def _describe(tensors: Sequence[TensorConfig]) -> str:
    return ", ".join(
        f"'{tensor.name}' {tensor.datatype} {list(tensor.dims)}{' optional' if tensor.optional else ''}" for tensor in tensors
    )


def _model(places: Sequence[PlacedModel], manifest: Manifest, config: ModelConfig, closing: ExitStack) -> FpgaModel:
    instances: list[FpgaInstance] = []
    cards: list[CardStatus] = []
    for place in places:
        for instance in place.on_card.instances:
            name = instance.name if len(places) == 1 else f"{instance.name}@{place.index}"
            instances.append(FpgaInstance(instance.name, instance, place.on_card, config, manifest, name=name))
            cards.append(place.card)
    return FpgaModel(instances, cards, closing)


def _moving(turns: OnDemandModel, manifest: Manifest, config: ModelConfig, closing: ExitStack) -> FpgaModel:
    on_card = turns.place.on_card.instances if turns.place is not None else [None] * len(turns.units)
    turns.instances = [
        FpgaInstance(unit, instance, turns, config, manifest) for unit, instance in zip(turns.units, on_card, strict=True)
    ]
    return FpgaModel(turns.instances, (), closing, turns)
