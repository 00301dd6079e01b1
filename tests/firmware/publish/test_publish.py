# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hypersonic.firmware.errors import ManifestMismatchError, PublishError
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest, check
from hypersonic.firmware.publish.repository import check_repository, find_published, publish, publish_files, versions
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

XCLBIN = assemble_xclbin("facile", Target.HW_EMU, find_platform("u250"), b"simulator")
X = Row((TensorSpec("x", (18,), FixedPoint(16, 6)),))
Y = Row((TensorSpec("y", (1,), FixedPoint(16, 6)),))
MANIFEST = Manifest.of(
    XCLBIN, model="facile", platform="u250", core="da", inputs=X, outputs=Y, ii=1, latency_cycles=1, max_batch_size=16_000
)

WEIGHTS = bytes(range(64)) * 40_000
WEIGHTED = assemble_xclbin("facile", Target.HW_EMU, find_platform("u250"), b"simulator", weights=True)
WITH_WEIGHTS = Manifest.of(
    WEIGHTED, model="facile", platform="u250", core="rf", inputs=X, outputs=Y, ii=1, latency_cycles=1, max_batch_size=16_000,
    weights=WEIGHTS,
)  # fmt: skip


def _complete(repository: Path) -> tuple[int, ...]:
    """The visible versions, each checked to be whole."""
    for version in versions(repository, "facile"):
        directory = repository / "facile" / str(version)
        check(Manifest.read(directory / "manifest.json"), (directory / "model.xclbin").read_bytes())
    if (repository / "facile").is_dir():
        assert (repository / "facile" / "config.pbtxt").read_text().startswith("name")
    return versions(repository, "facile")


def test_the_first_build_makes_repository_model_and_version(tmp_path: Path) -> None:
    repository = tmp_path / "new" / "models"
    place = publish(repository, XCLBIN, MANIFEST, 'name: "facile"')
    assert place == repository / "facile" / "1"
    assert sorted(path.name for path in place.iterdir()) == ["manifest.json", "model.xclbin"]
    assert (repository / "facile" / "config.pbtxt").read_text() == 'name: "facile"'
    assert sorted(path.name for path in repository.iterdir()) == [f".{MANIFEST.sha256}.xclbin", "facile"]
    assert (place.stat().st_mode & 0o555, place.parent.stat().st_mode & 0o555) == (0o555, 0o555)


def test_the_next_build_gets_the_next_version_and_replaces_the_config(tmp_path: Path) -> None:
    for number in range(1, 4):
        assert publish(tmp_path, XCLBIN, MANIFEST, f"name: {number}").name == str(number)
    (tmp_path / "facile" / "backup").mkdir()
    assert publish(tmp_path, XCLBIN, MANIFEST, "name: 4", version=10).name == "10"
    assert publish(tmp_path, XCLBIN, MANIFEST, "name: 5").name == "11"
    assert (tmp_path / "facile" / "config.pbtxt").read_text() == "name: 5"
    assert _complete(tmp_path) == (1, 2, 3, 10, 11)


def test_a_version_that_is_taken_is_refused_and_kept(tmp_path: Path) -> None:
    publish(tmp_path, XCLBIN, MANIFEST, "name", version=7)
    with pytest.raises(PublishError, match=r"facile/7 exists already"):
        publish(tmp_path, XCLBIN, MANIFEST, "name", version=7)
    assert _complete(tmp_path) == (7,)


def test_a_manifest_of_another_xclbin_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(ManifestMismatchError, match="sha256"):
        publish(tmp_path, XCLBIN, replace(MANIFEST, sha256="0" * 64), "name")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_file", [False, True])
def test_weights_are_published_with_their_xclbin_and_beside_versions_without_any(tmp_path: Path, as_file: bool) -> None:
    (file := tmp_path / "image").write_bytes(WEIGHTS)
    models = tmp_path / "models"
    publish(models, XCLBIN, MANIFEST, "name")
    place = publish(models, WEIGHTED, WITH_WEIGHTS, "name", weights=file if as_file else WEIGHTS)
    assert {path.name for path in place.iterdir()} == {"manifest.json", "model.xclbin", "weights.bin"}
    assert (place / "weights.bin").read_bytes() == WEIGHTS
    publish(models, XCLBIN, MANIFEST, "name")
    assert _complete(models) == (1, 2, 3)


def test_a_version_is_found_again_by_its_weights_too(tmp_path: Path) -> None:
    assert find_published(tmp_path, WITH_WEIGHTS) is None
    place = publish(tmp_path, WEIGHTED, WITH_WEIGHTS, "name", weights=WEIGHTS)
    assert find_published(tmp_path, WITH_WEIGHTS) == place
    assert find_published(tmp_path, replace(WITH_WEIGHTS, weights_sha256="0" * 64)) is None
    for content in (WEIGHTS[:-64], WEIGHTS[:-1] + b"x"):
        (place / "weights.bin").write_bytes(content)
        assert find_published(tmp_path, WITH_WEIGHTS) is None
    (place / "weights.bin").unlink()
    assert find_published(tmp_path, WITH_WEIGHTS) is None


def test_weights_of_another_build_or_none_or_too_many_are_not_published(tmp_path: Path) -> None:
    for xclbin, build, weights in (
        (WEIGHTED, WITH_WEIGHTS, WEIGHTS[:-64]),
        (WEIGHTED, WITH_WEIGHTS, None),
        (XCLBIN, MANIFEST, b"x"),
    ):
        with pytest.raises(ManifestMismatchError, match=r"weights_bytes is \d+, but weights\.bin has \d+"):
            publish(tmp_path, xclbin, build, "name", weights=weights)
    assert list(tmp_path.iterdir()) == []


def test_other_tensors_under_the_same_name_are_refused(tmp_path: Path) -> None:
    publish(tmp_path, XCLBIN, MANIFEST, "name")
    flags = TensorSpec("flags", (15,), FixedPoint(16, 6))
    with pytest.raises(PublishError, match=r"version 1 has inputs x FP32 \[18\], the new build flags FP32 \[15\]"):
        publish(tmp_path, XCLBIN, replace(MANIFEST, inputs=Row((flags,))), "name")
    with pytest.raises(PublishError, match=r"version 1 has outputs y FP32 \[1\], the new build y FP32 \[1\], flags FP32"):
        publish(tmp_path, XCLBIN, replace(MANIFEST, outputs=Row((*Y.tensors, flags))), "name")
    publish(tmp_path, XCLBIN, replace(MANIFEST, outputs=Row((TensorSpec("y", (1,), FixedPoint(8, 3)),))), "name")
    assert _complete(tmp_path) == (1, 2)


def test_beside_a_version_of_an_older_program_it_is_said_what_to_remove(tmp_path: Path) -> None:
    place = publish(tmp_path, XCLBIN, MANIFEST, "name")
    text = (place / "manifest.json").read_text()
    (place / "manifest.json").write_text(text.replace('"schema": 4', '"schema": 2'))
    with pytest.raises(PublishError, match=r"schema is 2, expected 4.* remove .*facile first"):
        publish(tmp_path, XCLBIN, MANIFEST, "name")


def test_files_of_any_backend_are_published_and_what_is_beside_them_replaced(tmp_path: Path) -> None:
    for number, text in enumerate((b"one", b"two"), 1):
        place = publish_files(tmp_path, "net", {"model.onnx": text}, {"config.pbtxt": text, "labels.txt": text})
        assert place == tmp_path / "net" / str(number)
        assert {path.name: path.read_bytes() for path in place.iterdir()} == {"model.onnx": text}
        assert (tmp_path / "net" / "labels.txt").read_bytes() == (tmp_path / "net" / "config.pbtxt").read_bytes() == text
    assert versions(tmp_path, "net") == (1, 2)


def test_versions_of_two_backends_do_not_share_a_model(tmp_path: Path) -> None:
    publish_files(tmp_path, "facile", {"model.onnx": b"net"}, {"config.pbtxt": b"theirs"})
    with pytest.raises(
        PublishError, match=r"version 1 has model.onnx, the new build manifest.json, model.xclbin \(.* is missing"
    ):
        publish(tmp_path, XCLBIN, MANIFEST, "ours")
    assert (tmp_path / "facile" / "config.pbtxt").read_text() == "theirs"
    assert versions(tmp_path, "facile") == (1,)


@pytest.mark.parametrize(("model", "version"), [("../up", None), (".hidden", None), ("", None), ("facile", 0), ("facile", -3)])
def test_names_that_make_no_directory_are_refused(tmp_path: Path, model: str, version: int | None) -> None:
    with pytest.raises(PublishError, match="expected"):
        publish(tmp_path, XCLBIN, replace(MANIFEST, model=model), "name", version=version)


def _in_a_process_that_dies_at(step: int, work: Callable[[], object]) -> bool:
    """Run work in a child whose step-th flush or rename is its end; tells whether it died there."""
    child = os.fork()
    if child == 0:
        left = [step]

        def dying(real: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **named: object) -> object:
                left[0] -= 1
                return os._exit(9) if left[0] == 0 else real(*arguments, **named)

            return call

        for name in ("fsync", "rename", "replace"):
            setattr(os, name, dying(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("present", [0, 1])
def test_a_crash_at_any_step_leaves_only_whole_versions(tmp_path: Path, present: int) -> None:
    step = 0
    died = True
    while died:
        step += 1
        repository = tmp_path / str(step)
        for _ in range(present):
            publish(repository, XCLBIN, MANIFEST, "name: old")
        died = _in_a_process_that_dies_at(step, partial(publish, repository, XCLBIN, MANIFEST, "name: new"))
        seen = _complete(repository)
        assert seen in (tuple(range(1, present + 1)), tuple(range(1, present + 2)))
        assert publish(repository, XCLBIN, MANIFEST, "name: next").name == str(len(seen) + 1)
    assert step > 6


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path, XCLBIN, MANIFEST, "name")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_once_get_a_version_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda _: publish(tmp_path, XCLBIN, MANIFEST, "name"), range(16)))
    assert sorted(int(place.name) for place in places) == list(range(1, 17))
    assert _complete(tmp_path) == tuple(range(1, 17))


def test_a_place_that_can_hold_no_repository_is_refused_and_one_that_can_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "models"):
        with pytest.raises(PublishError, match=r"model repository .*: .*/file is not a directory; choose another one"):
            check_repository(place)
    check_repository(tmp_path / "new" / "models")
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(PublishError, match=r"is not writable for this user"):
        check_repository(tmp_path)
