# SPDX-License-Identifier: Apache-2.0
"""The cost of a row of a model: from the manifest of a published model, or from the table of the zoo's models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hypersonic.firmware.publish import manifest as manifests
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.near import did_you_mean
from hypersonic.hls.row import Row
from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import ModelCost


@dataclass(frozen=True)
class KnownModel:
    """A zoo model.

    Attributes:
        cost: of a row on the wire as its YAML has it.
        event_rows: rows of one request of `hypersonic infer`.
    """

    cost: ModelCost
    event_rows: int


def _known(
    name: str, row_bytes: tuple[int, int], ii: int, event_rows: int, half: tuple[int, int] | None,
    packed: tuple[int, int] | None = None,
) -> KnownModel:  # fmt: skip
    return KnownModel(ModelCost(name, *row_bytes, ii=ii, half_bytes=half, packed_bytes=packed), event_rows)


#: the zoo models that have a core. Tests check bytes and clocks against docs/zoo.md. FACILE's packed row has 11 numbers as FP16
#: or INT16, and the 7 depth flags as UINT8 in a tensor of their own
ZOO: Mapping[str, KnownModel] = {
    each.cost.name: each
    for each in (
        _known("facile", (72, 4), 1, 16_000, (36, 2), (29, 2)),
        _known("facile_adc", (11, 2), 1, 16_000, None),
        _known("facile_v2", (188, 4), 100, 16_000, (94, 2)),
        _known("facile_v2_da", (188, 4), 1, 16_000, (94, 2)),
        _known("jets", (64, 20), 16, 16, (32, 10)),
        _known("jets_logits", (64, 20), 1, 16, (32, 10)),
        _known("jets_hgq", (64, 20), 1, 16, (32, 10)),
        _known("jets_transformer", (96, 20), 1, 16, (48, 10)),
        _known("toptag", (480, 4), 1_600, 16, (240, 2)),
        _known("anomaly", (228, 4), 1, 16, (114, 2)),
        _known("showers", (128, 4), 1, 16, (64, 2)),
        _known("deepcalo", (9_856, 4), 73_728, 5, (4_928, 2)),
        _known("deepcalo_film", (11_284, 4), 73_728, 5, (5_642, 2)),
        _known("emtrk", (9_216, 16), 9_680, 235, (4_608, 8)),
        _known("emtrk_packed", (3_456, 8), 9_680, 235, None),
        _known("deepmet", (198_000, 8), 36_000, 1, (99_000, 4), (85_500, 4)),
        _known("deepclean", (688_128, 32_768), 65_536, 1, (344_064, 16_384)),
        _known("resnet8", (3_072, 40), 6_144, 16, (3_072, 20)),
        _known("resnet50", (150_528, 4_000), 602_112, 1, (150_528, 2_000)),
    )
}


def find_zoo_model(name: str) -> KnownModel:
    """Return the zoo model with that name. Raises PlanError, which names the nearest one and all others."""
    if name in ZOO:
        return ZOO[name]
    raise PlanError(
        f"model is {name!r}, expected a model's folder, or a zoo model with a core ({', '.join(sorted(ZOO))})"
        f"{did_you_mean(name, ZOO) or '.'} For any "
        "other model give the bytes of a row with --input-bytes and --output-bytes, and the clocks of a row with --ii or a "
        "server's --metrics"
    )


def is_published(folder: Path) -> bool:
    """Return whether a model's folder has a version with a manifest."""
    return any(file.parent.name.isdecimal() for file in folder.glob(f"*/{manifests.FILE_NAME}"))


def read_model(folder: Path, version: int = 0) -> tuple[ModelCost, Path]:
    """Return the cost that the manifest of a published model gives, and the manifest's path.

    Args:
        folder: <repository>/<model>.
        version: 0 = the latest.

    Raises:
        PlanError: If there is no manifest.
        ManifestError: If it is not valid.
    """
    found = sorted(
        (int(file.parent.name), file) for file in folder.glob(f"*/{manifests.FILE_NAME}") if file.parent.name.isdecimal()
    )
    chosen = [file for number, file in found if version in (0, number)]
    if not chosen:
        what = "is not a directory" if not folder.is_dir() else f"has no {version or '<version>'}/{manifests.FILE_NAME}"
        raise PlanError(
            f"model: {folder} {what}, expected the folder of a model that `hypersonic build` has published; only those have "
            "bytes and clocks of a row. For a model of another backend leave --model-repository out, and give --input-bytes, "
            "--output-bytes and a server's --metrics"
        )
    manifest = Manifest.read(chosen[-1])
    return cost_of(manifest), chosen[-1]


def cost_of(manifest: Manifest) -> ModelCost:
    """Return the cost of a row as a manifest describes it; with the compute units that its xclbin has."""
    whole = (manifest.inputs.row_bytes, manifest.outputs.row_bytes)
    half = (_row_bytes(manifest.inputs, 2), _row_bytes(manifest.outputs, 2))
    packed = (_row_bytes(manifest.inputs, 2, packed=True), _row_bytes(manifest.outputs, 2, packed=True))
    return ModelCost(
        manifest.model,
        *whole,
        ii=manifest.ii,
        units=len(manifest.compute_units),
        half_bytes=half if half != whole else None,
        packed_bytes=packed if packed not in (half, whole) else None,
    )


def with_bytes(cost: ModelCost, row_bytes: tuple[int, int]) -> ModelCost:
    """Return the model with other bytes per row, and without smaller formats."""
    return replace(cost, input_bytes=row_bytes[0], output_bytes=row_bytes[1], half_bytes=None, packed_bytes=None)


def _row_bytes(row: Row, most: int, *, packed: bool = False) -> int:
    """Return the bytes of a row with at most `most` per element.

    A tensor of packed rows keeps its size.

    Args:
        packed: 1 where the network's own type has 8 bits or fewer.
    """
    least = {
        tensor.name: 1 if packed and tensor.fixed.width <= 8 else min(most, tensor.element.bytes) for tensor in row.tensors
    }
    return sum(tensor.row_bytes if tensor.packing else tensor.size * least[tensor.name] for tensor in row.tensors)
