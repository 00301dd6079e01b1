# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace

import pytest

from hypersonic.firmware.errors import LinkError, ManifestMismatchError, ResourceError, XclbinError
from hypersonic.firmware.kernel.vitis_xml import Instance, KernelDescription, describe_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest, check
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.vitis.config import vpp_config
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels, assemble_xclbin
from hypersonic.firmware.xclbin.connectivity import place_kernels, shared_banks
from hypersonic.firmware.xclbin.container import Section, Xclbin
from hypersonic.firmware.xclbin.images import kernel_images, pack_images
from hypersonic.firmware.xclbin.sections import Kind, encode_key_values
from hypersonic.hls.resources import Amounts
from tests.firmware.publish.manifests import MANIFEST

U250, U55C = find_platform("u250"), find_platform("u55c")
IMAGES = {"facile": b"\x7fELF of facile", "jets": b"\x7fELF of jets" * 100}
KERNELS = [LinkedKernel("facile", 3, digest="a" * 64), LinkedKernel("jets", 2, weights=True, digest="b" * 64)]
BYTES = assemble_kernels(KERNELS, Target.HW_EMU, U250, pack_images(IMAGES), tools={"verilator": "5"})


def _kernels(**units: int) -> list[KernelDescription]:
    return [describe_kernel(name, [Instance(f"{name}_{k + 1}", 0) for k in range(count)]) for name, count in units.items()]


def _manifest(kernel: str) -> Manifest:
    return Manifest.of(
        BYTES, model=f"my_{kernel}", kernel=kernel, platform="u250", core="rf", inputs=MANIFEST.inputs,
        outputs=MANIFEST.outputs, ii=1, latency_cycles=1, max_batch_size=16, weights=bytes(64) if kernel == "jets" else None,
    )  # fmt: skip


def test_an_xclbin_holds_the_units_of_several_kernels_with_addresses_of_their_own() -> None:
    xclbin = Xclbin.parse(BYTES)
    assert [kernel.name for kernel in xclbin.kernels] == ["facile", "jets"]
    assert [unit.name for unit in xclbin.compute_units] == ["facile_1", "facile_2", "facile_3", "jets_1", "jets_2"]
    assert [unit.base_address for unit in xclbin.compute_units] == [0x1800000 + 0x10000 * k for k in range(5)]
    assert [unit.name for unit in xclbin.units_of("jets")] == ["jets_1", "jets_2"]
    assert [unit.memories for unit in xclbin.units_of("jets")] == [{0: 3, 1: 3, 3: 3}, {0: 0, 1: 0, 3: 0}]
    assert [len(kernel.arguments) for kernel in xclbin.kernels] == [3, 4]
    metadata = xclbin.section(Kind.EMBEDDED_METADATA) or b""
    assert b'numComputeUnits="5"' in metadata
    build = json.loads(xclbin.section(Kind.BUILD_METADATA) or b"")["build_metadata"]["xclbin"]
    assert [kernel["name"] for kernel in build["user_regions"][0]["kernels"]] == ["facile", "jets"]


def test_the_digests_are_in_the_json_that_xclbinutil_writes() -> None:
    xclbin = Xclbin.parse(BYTES)
    assert xclbin.kernel_digests == {"facile": "a" * 64, "jets": "b" * 64}
    assert json.loads(xclbin.section(Kind.KEYVALUE_METADATA) or b"") == {
        "key_values": [
            {"key": "hypersonic.kernel.facile", "value": "a" * 64},
            {"key": "hypersonic.kernel.jets", "value": "b" * 64},
        ]
    }
    assert Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, b"")).kernel_digests == {}


def test_digests_are_added_to_a_linked_xclbin_and_other_entries_are_kept() -> None:
    linked = Xclbin.parse(assemble_xclbin("facile", Target.HW, U250, b"bits"))
    theirs = replace(linked, sections=(*linked.sections, Section(Kind.KEYVALUE_METADATA, encode_key_values({"site": "b32"}))))
    for xclbin, others in ((linked, {}), (theirs, {"site": "b32"})):
        marked = Xclbin.parse(xclbin.with_digests({"facile": "c" * 64}).to_bytes())
        assert marked.key_values == {**others, "hypersonic.kernel.facile": "c" * 64}
        assert (marked.uuid, marked.bitstream, marked.compute_units) == (linked.uuid, b"bits", linked.compute_units)


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[]", b"{}", b'{"key_values":[1]}', b'{"key_values":[{"key":"k"}]}', b"\xff", b"[" * 100_000, bytes(2 << 20)],
)
def test_a_section_of_keys_that_is_not_whole_is_refused(payload: bytes) -> None:
    blank = Xclbin.parse(assemble_xclbin("facile", Target.HW, U250, b""))
    broken = replace(blank, sections=(*blank.sections, Section(Kind.KEYVALUE_METADATA, payload)))
    with pytest.raises(XclbinError, match="KEYVALUE_METADATA"):
        Xclbin.parse(broken.to_bytes())


@pytest.mark.parametrize(("kernel", "digest"), [("facile", "A" * 64), ("facile", "a" * 63), ("other", "a" * 64)])
def test_a_digest_that_is_none_or_of_no_kernel_is_refused(kernel: str, digest: str) -> None:
    linked = Xclbin.parse(assemble_xclbin("facile", Target.HW, U250, b""))
    with pytest.raises(XclbinError, match="KEYVALUE_METADATA has the digest"):
        linked.with_digests({kernel: digest})


def test_a_manifest_names_its_own_kernel_among_several() -> None:
    facile, jets = _manifest("facile"), _manifest("jets")
    assert (facile.compute_units, facile.kernel_sha256) == (("facile_1", "facile_2", "facile_3"), "a" * 64)
    assert (jets.compute_units, jets.kernel_sha256, jets.weights_bytes) == (("jets_1", "jets_2"), "b" * 64, 64)
    for manifest in (facile, jets):
        assert Manifest.parse(manifest.to_json()) == manifest
        assert check(manifest, BYTES).kernel(manifest.kernel) is not None


def test_a_manifest_whose_kernel_is_missing_or_another_one_is_refused() -> None:
    with pytest.raises(ManifestMismatchError, match="model 'my_jets': kernel is 'met', but the xclbin has 'facile', 'jets'"):
        check(replace(_manifest("jets"), kernel="met"), BYTES)
    with pytest.raises(ManifestMismatchError, match=f"kernel_sha256 is '{'c' * 64}', but the xclbin has '{'b' * 64}'"):
        check(replace(_manifest("jets"), kernel_sha256="c" * 64), BYTES)
    with pytest.raises(XclbinError, match="the kernel is '', and the xclbin has 'facile', 'jets'"):
        _manifest("")


def test_the_simulators_of_several_kernels_are_members_of_a_tar_archive() -> None:
    xclbin = Xclbin.parse(BYTES)
    assert kernel_images(xclbin) == IMAGES
    with tarfile.open(fileobj=io.BytesIO(xclbin.bitstream)) as archive:
        assert archive.getnames() == ["facile.so", "jets.so"]
    alone = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, pack_images({"facile": b"\x7fELF"})))
    assert (alone.bitstream, kernel_images(alone)) == (b"\x7fELF", {"facile": b"\x7fELF"})


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"\x7fELF", "not an archive of the simulators facile.so, jets.so"),
        (pack_images({"facile": b"1", "met": b"2"}), "member 'met.so', expected the files facile.so, jets.so"),
        (pack_images({"facile": b"1", "jets": b"2"})[:1024], "lacks the simulators jets.so"),
        (pack_images(IMAGES)[:1800], "BITSTREAM"),
    ],
)
def test_an_archive_of_other_simulators_is_refused(image: bytes, message: str) -> None:
    with pytest.raises(XclbinError, match=message):
        kernel_images(Xclbin.parse(assemble_kernels(KERNELS, Target.HW_EMU, U250, image)))


def test_one_plan_gives_v_plus_plus_the_units_banks_dies_and_clocks_of_all_kernels() -> None:
    kernels = _kernels(facile=2, jets=1)
    places = place_kernels(U250, kernels, [Amounts(lut=20_000), Amounts(lut=190_000)])
    assert vpp_config(U250, kernels, places, vitis="2025.1", kernel_mhz=250).splitlines()[1:] == [
        "kernel_frequency=0:250", "", "[connectivity]", "nk=facile:2:facile_1,facile_2", "nk=jets:1:jets_1",
        "sp=facile_1.m_axi_gmem0:DDR[0]", "sp=facile_1.m_axi_gmem1:DDR[0]",
        "sp=facile_2.m_axi_gmem0:DDR[1]", "sp=facile_2.m_axi_gmem1:DDR[1]",
        "sp=jets_1.m_axi_gmem0:DDR[2]", "sp=jets_1.m_axi_gmem1:DDR[2]",
        "slr=facile_1:SLR0", "slr=facile_2:SLR1", "slr=jets_1:SLR2",
    ]  # fmt: skip


def test_units_share_banks_when_there_are_more_of_several_kernels_than_banks() -> None:
    places = place_kernels(U250, _kernels(facile=3, jets=2))
    assert [place.ports[0][1].start for place in places] == [0, 1, 2, 3, 0]
    assert shared_banks(U250, places) == ["DDR[0] is shared by facile_1, jets_2: they share its bandwidth"]
    assert not shared_banks(U250, place_kernels(U250, _kernels(facile=3, jets=1)))
    with pytest.raises(LinkError, match="5 compute units do not fit u250"):
        place_kernels(U250, _kernels(facile=5))


def test_more_ports_than_the_memory_subsystem_takes_are_refused_with_the_kernels_names() -> None:
    assert len(place_kernels(U250, _kernels(facile=20, jets=8))) == 28
    with pytest.raises(
        LinkError,
        match=r"kernels facile x 21, jets x 8 do not fit u250 together: 29 compute units have 58 AXI masters, and the memory "
        r"subsystem of u250 takes 15 for each of 4 DDR4 banks: got 29 units, expected at most 28",
    ):
        place_kernels(U250, _kernels(facile=21, jets=8))
    assert not shared_banks(U55C, place_kernels(U55C, _kernels(facile=8, jets=8)))
    with pytest.raises(LinkError, match=r"takes 1 for each of 32 HBM banks: got 17 units, expected at most 16"):
        place_kernels(U55C, _kernels(facile=8, jets=9))


def test_the_largest_units_are_placed_first_and_what_is_too_large_together_is_refused_by_name() -> None:
    large, small = Amounts(lut=190_000), Amounts(lut=90_000)
    assert [place.slr for place in place_kernels(U250, _kernels(facile=4, jets=2), [small, large])] == [2, 2, 3, 3, 0, 1]
    with pytest.raises(
        ResourceError, match=r"^the kernels facile x 4, jets x 4 do not fit u250 together: compute unit facile_. "
    ):
        place_kernels(U250, _kernels(facile=4, jets=4), [small, large])
    with pytest.raises(ResourceError, match=r"facile x 1, jets x 2 do not fit u250 together: .* in all SLRs together LUT: got"):
        place_kernels(U250, _kernels(facile=1, jets=2), [small, Amounts(lut=500_000)])


def test_two_kernels_with_one_name_are_refused() -> None:
    with pytest.raises(LinkError, match="kernels are facile, jets, facile, expected each name once: facile is there twice"):
        assemble_kernels([LinkedKernel("facile"), LinkedKernel("jets"), LinkedKernel("facile")], Target.HW, U250, b"")
