# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.firmware.publish.repository import find_published, publish
from tests.firmware.publish.manifests import MANIFEST, XCLBIN

OTHER = replace(MANIFEST, model="other")


def _stored(repository: Path) -> list[str]:
    return sorted(path.name for path in repository.iterdir() if path.is_file())


def test_the_xclbin_of_two_models_is_stored_once_under_its_hash(tmp_path: Path) -> None:
    places = [publish(tmp_path, XCLBIN, build, "name") for build in (MANIFEST, OTHER, MANIFEST)]
    assert _stored(tmp_path) == [f".{MANIFEST.sha256}.xclbin"]
    assert {(place / "model.xclbin").stat().st_ino for place in places} == {
        (tmp_path / f".{MANIFEST.sha256}.xclbin").stat().st_ino
    }
    assert all((place / "model.xclbin").read_bytes() == XCLBIN for place in places)
    assert (find_published(tmp_path, MANIFEST), find_published(tmp_path, OTHER)) == (places[2], places[1])


def test_what_no_version_links_to_is_removed_by_the_next_publish(tmp_path: Path) -> None:
    publish(tmp_path, XCLBIN, MANIFEST, "name")
    (unused := tmp_path / f".{'0' * 64}.xclbin").write_bytes(b"old")
    publish(tmp_path, XCLBIN, OTHER, "name")
    assert not unused.exists()
    shutil.rmtree(tmp_path / "facile")
    publish(tmp_path, XCLBIN, OTHER, "name")
    assert _stored(tmp_path) == [f".{MANIFEST.sha256}.xclbin"]


def test_tritonserver_takes_every_directory_for_a_model_so_there_are_no_others(tmp_path: Path) -> None:
    for build in (MANIFEST, OTHER, MANIFEST):
        publish(tmp_path, XCLBIN, build, "name")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["facile", "other"]


def test_the_store_of_an_earlier_version_is_moved_to_its_place(tmp_path: Path) -> None:
    place = publish(tmp_path, XCLBIN, MANIFEST, "name")
    (tmp_path / ".xclbins").mkdir()
    (tmp_path / f".{MANIFEST.sha256}.xclbin").rename(tmp_path / ".xclbins" / f"{MANIFEST.sha256}.xclbin")
    publish(tmp_path, XCLBIN, OTHER, "name")
    assert _stored(tmp_path) == [f".{MANIFEST.sha256}.xclbin"]
    assert not (tmp_path / ".xclbins").exists()
    assert (place / "model.xclbin").stat().st_nlink >= 2


def test_an_entry_with_other_bytes_than_its_name_says_is_replaced(tmp_path: Path) -> None:
    place = publish(tmp_path, XCLBIN, MANIFEST, "name")
    (place / "model.xclbin").write_bytes(b"damaged")
    assert find_published(tmp_path, MANIFEST) is None
    again = publish(tmp_path, XCLBIN, MANIFEST, "name")
    assert (again / "model.xclbin").read_bytes() == XCLBIN
    assert find_published(tmp_path, MANIFEST) == again


def test_without_hard_links_each_version_has_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    places = [publish(tmp_path, XCLBIN, build, "name") for build in (MANIFEST, OTHER)]
    assert [(place / "model.xclbin").read_bytes() for place in places] == [XCLBIN, XCLBIN]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facile", "other"]


def test_publishing_at_once_leaves_one_stored_xclbin_and_whole_versions(tmp_path: Path) -> None:
    builds = [replace(MANIFEST, model=f"model{number}") for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        places = list(pool.map(lambda build: publish(tmp_path, XCLBIN, build, "name"), builds))
    assert _stored(tmp_path) == [f".{MANIFEST.sha256}.xclbin"]
    assert all(find_published(tmp_path, build) == place for build, place in zip(builds, places, strict=True))
