# SPDX-License-Identifier: Apache-2.0
"""The build for F2 with stand-ins for the AWS kit and AWS: what is written, called and said, and going on after a stop."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hypersonic.building.model import build as build_command
from hypersonic.building.request import CardOptions
from hypersonic.firmware.f2.design import PORTS, write_f2
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError, TimingError
from hypersonic.firmware.toolchains.f2.build import build_f2
from hypersonic.firmware.toolchains.f2.custom_logic import (
    CL,
    connections,
    id_defines_text,
    synthesis_tcl,
    wrapper_text,
    write_cl,
)
from hypersonic.firmware.toolchains.f2.image import check_bucket, describe_command, image_state, read_image, wait_for_image
from hypersonic.firmware.toolchains.f2.kit import VARIABLES, Kit, find_kit
from hypersonic.firmware.toolchains.toolchain import Bitstream
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls import verilator
from tests.support.optional import require

if TYPE_CHECKING:
    from tests.f2.conftest import Built

HERE = Path(__file__).parent
F2 = find_platform("aws_f2")
AFI, AGFI = "afi-0123456789abcdef0", "agfi-0fedcba9876543210"

#: the kit's script: wants to be where the CL's scripts are; leaves an archive, a report and, when told to, a violated dcp
DCP_SCRIPT = """
import os, pathlib, sys
cl = pathlib.Path(os.environ["CL_DIR"])
assert pathlib.Path.cwd() == cl.resolve() / "build" / "scripts", pathlib.Path.cwd()
tag, name = sys.argv[sys.argv.index("--tag") + 1], sys.argv[sys.argv.index("--cl") + 1]
kit = pathlib.Path(__file__).resolve().parents[2]
with (kit / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv) + chr(10))
if (kit / "fail").exists():
    sys.exit("ERROR: [Place 30-640] the design does not fit")
for folder in ("checkpoints", "reports"):
    (cl / "build" / folder).mkdir(exist_ok=True)
slack = (kit / "slack").read_text()
state = "VIOLATED" if slack.startswith("-") else "MET"
if not (kit / "silent").exists():
    (cl / "build" / "reports" / f"{name}.{tag}.post_route_timing.rpt").write_text(f"Slack ({state}) :  {slack}ns  (required)")
if state == "VIOLATED":
    (cl / "build" / "checkpoints" / f"{name}.{tag}.post_route.VIOLATED.dcp").touch()
(cl / "build" / "checkpoints" / f"{tag}.Developer_CL.tar").write_text("the design")
"""

AWS_SCRIPT = f"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/../aws.calls"
case "$2" in
  create-fpga-image) echo '{{"FpgaImageId": "{AFI}", "FpgaImageGlobalId": "{AGFI}"}}' ;;
  describe-fpga-images) cat "$(dirname "$0")/../state" ;;
  *) echo uploaded ;;
esac
"""


@dataclass(frozen=True)
class Site:
    """A machine with a kit, Vivado and the AWS command line, all of them stand-ins, below `place`."""

    place: Path
    environment: dict[str, str]

    @property
    def kit(self) -> Kit:
        return find_kit(F2, self.environment)

    def say(self, code: str, message: str = "") -> None:
        (self.place / "state").write_text(f'{{"FpgaImages": [{{"State": {{"Code": "{code}", "Message": "{message}"}}}}]}}')

    def calls(self, name: str) -> list[str]:
        file = self.place / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    place = tmp_path / "site"
    shell = place / "shell"
    files = ["build_all.tcl", "build_level_1_cl.tcl", "encrypt.tcl", "synth_cl_header.tcl", "synth_cl_footer.tcl"]
    wanted = {f"shell/build/scripts/{name}": "" for name in files}
    wanted |= {"shell/build/scripts/aws_build_dcp_from_cl.py": DCP_SCRIPT, "shell/slack": "0.034"}
    wanted |= {"shell/build/checkpoints/from_aws/cl_bb_routed.small_shell.dcp": "", "shell/shell_version.txt": ""}
    wanted |= {f"design/{name}": "" for name in ("interfaces/cl_ports.vh", "interfaces/unused_ddr_template.inc")}
    wanted |= {"design/sh_ddr/synth/sh_ddr.sv": "", "kit/release_version.txt": "RELEASE_VERSION=2.3.2\n"}
    wanted |= {"bin/aws": AWS_SCRIPT, "bin/vivado": '#!/bin/sh\necho "vivado v2025.2 (64-bit)"\n'}
    for name, text in wanted.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    for name in ("aws", "vivado"):
        (place / "bin" / name).chmod(0o755)
    environment = dict.fromkeys(VARIABLES, str(place)) | {
        "PATH": f"{place / 'bin'}:/usr/bin:/bin", "AWS_FPGA_REPO_DIR": str(place / "kit"), "HDK_SHELL_DIR": str(shell),
        "HDK_SHELL_DESIGN_DIR": str(place / "design"),
    }  # fmt: skip
    stand_in = Site(place, environment)
    stand_in.say("available")
    return stand_in


Build = Callable[[], Bitstream]


@pytest.fixture
def build(site: Site, built: Built, tmp_path: Path) -> Build:
    naps: list[float] = []
    return lambda: build_f2(
        "bench", built.design, F2, site.kit, "fpga-bucket", tmp_path / "bitstream", needed_bytes=0, sleep=naps.append
    )


def test_the_kit_is_found_with_its_version(site: Site) -> None:
    assert (site.kit.version, site.kit.release) == ("2.3.2", "2025.2")


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("variable", r"\$HDK_SHELL_DIR is not set; clone https://github.com/aws/aws-fpga .* `source hdk_setup.sh`"),
        ("checkpoint", r"lacks .*cl_bb_routed.small_shell.dcp: .* which fetches the shell's files"),
        ("vivado", r"vivado is neither on PATH nor in \$XILINX_VIVADO"),
        ("aws", "aws_f2 needs aws, which is not on PATH"),
    ],
)
def test_what_is_missing_is_said_before_anything_runs(site: Site, without: str, message: str) -> None:
    environment = dict(site.environment)
    if without == "variable":
        del environment["HDK_SHELL_DIR"]
    elif without == "checkpoint":
        (site.place / "shell/build/checkpoints/from_aws/cl_bb_routed.small_shell.dcp").unlink()
    else:
        (site.place / "bin" / without).unlink()
        environment["PATH"] = f"{site.place / 'bin'}:{site.place / 'links'}"
        (site.place / "links").mkdir()
        (site.place / "links" / "python3").symlink_to(shutil.which("python3") or "/usr/bin/python3")
    with pytest.raises(MissingVendorError, match=message):
        find_kit(F2, environment)


def test_a_build_ends_with_a_container_that_names_the_image(site: Site, build: Build, built: Built) -> None:
    done = build()
    container = Xclbin.read(done.xclbin)
    assert (container.target, container.vbnv, container.uuid) == (Target.HW, F2.vbnv, built.design.uuid)
    assert container.bitstream == AGFI.encode()
    assert [unit.name for unit in container.compute_units] == ["bench_1", "bench_2"]
    assert [unit.base_address for unit in container.compute_units] == [0, 0x10000]
    assert done.report == {"kernel_mhz": 250, "timing": {"setup_wns_ns": 0.034}, "afi": {"afi": AFI, "agfi": AGFI}}
    assert done.tools == {"vivado": "2025.2", "aws-fpga": "2.3.2"}
    assert site.calls("shell/calls") == [
        f"aws_build_dcp_from_cl.py --cl {CL} --mode small_shell --flow BuildAll --tag hypersonic"
    ]
    upload, create, describe = site.calls("aws.calls")
    archive = f"{done.build.name}.tar"
    assert upload == f"s3 cp {archive} s3://fpga-bucket/dcp/{archive}"
    assert f"Bucket=fpga-bucket,Key=dcp/{archive}" in create
    assert describe == f"ec2 describe-fpga-images --fpga-image-ids {AFI} --output json"
    assert (done.build / archive).read_text() == "the design"


def test_a_build_goes_on_where_it_stopped(site: Site, build: Build) -> None:
    (site.place / "shell" / "fail").touch()
    with pytest.raises(StepError, match="the design does not fit: ask for fewer compute units"):
        build()
    (site.place / "shell" / "fail").unlink()
    site.say("failed", "UNKNOWN_BITSTREAM_GENERATE_ERROR")
    with pytest.raises(StepError, match="did not make image afi-0123456789abcdef0: its state is failed: UNKNOWN_BITSTREAM"):
        build()
    site.say("available")
    build()
    build()
    assert len(site.calls("shell/calls")) == 2
    assert [call.split()[1] for call in site.calls("aws.calls")] == ["cp", "create-fpga-image", *["describe-fpga-images"] * 3]


def test_a_clock_that_is_missed_makes_no_image(site: Site, build: Build) -> None:
    (site.place / "shell" / "slack").write_text("-0.210")
    with pytest.raises(TimingError, match=r"misses the shell's 250 MHz: its least setup slack is -0\.210 ns"):
        build()
    assert site.calls("aws.calls") == []


def _forget_checkpoint(tmp_path: Path) -> None:
    """Remove the archive, so that the next build makes it anew in the same directory."""
    (archive,) = (tmp_path / "bitstream").glob("*/*.tar")
    archive.unlink()


def test_an_outdated_violated_checkpoint_does_not_refuse_a_later_one_that_meets_the_clock(
    site: Site, build: Build, tmp_path: Path
) -> None:  # fmt: skip
    (site.place / "shell" / "slack").write_text("-0.210")
    with pytest.raises(TimingError):
        build()
    _forget_checkpoint(tmp_path)
    (site.place / "shell" / "slack").write_text("0.010")
    assert build().report["timing"] == {"setup_wns_ns": 0.010}


def test_an_outdated_report_does_not_accept_a_later_checkpoint(site: Site, build: Build, tmp_path: Path) -> None:
    build()
    _forget_checkpoint(tmp_path)
    (site.place / "shell" / "silent").touch()
    with pytest.raises(StepError, match=r"post_route_timing\.rpt cannot be read"):
        build()


@pytest.mark.parametrize("bucket", ["", "No_Such", "a", "ok,Key=b"])
def test_a_build_without_a_bucket_is_refused(bucket: str) -> None:
    with pytest.raises(MissingVendorError, match="name yours with --afi-bucket" if not bucket else "the name of an S3 bucket"):
        check_bucket(F2, bucket)


@pytest.mark.parametrize(
    "answer", ["", "An error occurred (UnauthorizedOperation)", '{"FpgaImageId": "afi-0123456789abcdef0"}']
)
def test_an_answer_without_an_image_is_refused(tmp_path: Path, answer: str) -> None:
    (tmp_path / "afi.txt").write_text(answer)
    with pytest.raises(StepError, match="AWS named no image, expected FpgaImageId and FpgaImageGlobalId"):
        read_image(tmp_path / "afi.txt")


def test_an_image_is_waited_for(site: Site) -> None:
    site.say("pending")
    told: list[str] = []
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            site.say("available")

    wait_for_image(site.place / "bin" / "aws", AFI, told.append, sleep)
    assert naps == [60, 60, 60]
    assert len(told) == 1
    assert describe_command(Path("aws"), AFI)[1:3] == ["ec2", "describe-fpga-images"]


@pytest.mark.parametrize("answer", ["", "{}", '{"FpgaImages": []}', '{"FpgaImages": [{"State": 3}]}', "[" * 100_000])
def test_an_answer_that_is_none_is_told(answer: str) -> None:
    with pytest.raises(StepError, match="names no state of the image"):
        image_state(answer)


def test_the_directory_is_what_the_kits_scripts_read(site: Site, built: Built, tmp_path: Path) -> None:
    inputs = write_cl(built.design, site.kit, tmp_path)
    assert write_cl(built.design, site.kit, tmp_path) == inputs  # again, over the old one
    assert all((tmp_path / name).is_file() for name in inputs)
    design = tmp_path / CL / "design"
    names = {file.name for file in design.iterdir()}
    assert {f"{CL}.sv", "cl_id_defines.vh", "hypersonic_f2.sv", "f2_shell.sv", "bench.v", "registers.svh"} <= names
    assert len(names) == len(built.design.sources) + 2  # no two sources share a name
    scripts = tmp_path / CL / "build" / "scripts"
    assert (scripts / "build_all.tcl").readlink() == site.kit.shell / "build/scripts/build_all.tcl"
    assert (tmp_path / CL / "build" / "constraints" / "small_shell_cl_pnr_user.xdc").is_file()
    assert hashlib.sha256((design / "f2_shell.sv").read_bytes()).digest()


def test_the_wrapper_joins_every_port_and_compiles_against_a_list_of_its_ports(built: Built, tmp_path: Path) -> None:
    joined = connections()
    assert set(joined) == {name for _, name, _ in PORTS}
    assert (joined["ocl_awaddr"], joined["ocl_rdata"]) == ("ocl_cl_awaddr", "cl_ocl_rdata")
    assert (joined["pcim_araddr"], joined["pcim_rid"]) == ("cl_sh_pcim_araddr", "sh_cl_pcim_rid")
    (tmp_path / f"{CL}.sv").write_text(wrapper_text())
    (tmp_path / "cl_id_defines.vh").write_text(id_defines_text())
    (tmp_path / "unused_ddr_template.inc").write_text("  assign cl_sh_ddr_stat_ack = 1'b1;\n")
    shutil.copy(HERE / "cl_ports.vh", tmp_path / "cl_ports.vh")
    # the wrapper uses only some of the kit's ports, and not the parameters EN_DDR and EN_HBM that the kit requires
    quiet = ["-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", f"-I{tmp_path}"]
    verilator.lint([*built.design.kernel.lint_waivers, *built.design.sources, tmp_path / f"{CL}.sv"], CL, *quiet)


def test_the_kit_reads_our_ids() -> None:
    """As aws_build_dcp_from_cl.py does: the third word of the define, 32'h and a line before the vendor."""
    (line,) = [line for line in id_defines_text().splitlines() if "CL_SH_ID0 " in line]
    device, vendor = line.split()[2].removeprefix("32'h").split("_")
    assert (device, vendor) == ("F010", "1D0F")


def test_the_synthesis_script_is_tcl_that_reads_every_file_in_order(site: Site, built: Built, tmp_path: Path) -> None:
    require("tclsh", "tcl")
    script = tmp_path / "synth.tcl"
    script.write_text(synthesis_tcl([source.name for source in built.design.sources]))
    recorder = tmp_path / "run.tcl"
    recorder.write_text(
        f"set HDK_SHELL_DIR {site.place / 'shell'}; set HDK_SHELL_DESIGN_DIR d; set src_post_enc_dir S; set constraints_dir C\n"
        "set reports_dir R; set CL cl_hypersonic; set TAG t; set DEVICE_TYPE part\n"
        "proc unknown {args} { puts [join $args |] }\n"
        f"source {script}\n"
    )
    output = subprocess.run(["tclsh", str(recorder)], capture_output=True, text=True, check=True).stdout
    read = next(line for line in output.splitlines() if line.startswith("read_verilog"))
    names = read.split("|")[2].split()
    assert names[-2:] == ["S/hypersonic_f2.sv", f"S/{CL}.sv"]
    assert len(names) == len([source for source in built.design.sources if source.suffix != ".svh"]) + 1
    assert "synth_design|-mode|out_of_context|-top|cl_hypersonic|" in output


def test_the_build_command_says_what_is_missing_before_the_model_is_read(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def refused(**options: Any) -> str:
        with pytest.raises(MissingVendorError) as caught:
            build_command("no such model", "hw", platform="aws_f2", repository=tmp_path / "models", **options)
        return str(caught.value)

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "$AWS_FPGA_REPO_DIR is not set" in refused()
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    assert "name yours with --afi-bucket" in refused()
    assert "--kernel-mhz is 300, but the shell's one clock is 250 MHz" in refused(options=CardOptions(kernel_mhz=300))
    assert "takes --core da or rf, not hls" in refused(core="hls")


def test_memory_files_lie_in_the_design_and_decide_the_build(site: Site, built: Built, tmp_path: Path) -> None:
    weights = tmp_path / "bench_weights.mem"
    weights.write_text("1f\n")
    kernel = replace(built.design.kernel, core=replace(built.design.kernel.core, memories=(weights,)))
    (tmp_path / "build").mkdir()
    inputs = write_cl(replace(built.design, kernels=((kernel, 2),)), site.kit, tmp_path / "build")
    assert f"{CL}/design/bench_weights.mem" in inputs
    assert (tmp_path / "build" / CL / "design" / "bench_weights.mem").read_text() == "1f\n"
    script = (tmp_path / "build" / CL / "build" / "scripts" / f"synth_{CL}.tcl").read_text()
    assert "$::env(CL_DIR)/design/bench_weights.mem" in script
    uuids = {write_f2(kernel, 2, tmp_path / "one").uuid}
    weights.write_text("20\n")
    assert write_f2(kernel, 2, tmp_path / "two").uuid not in uuids
