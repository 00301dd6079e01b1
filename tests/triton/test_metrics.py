# SPDX-License-Identifier: Apache-2.0
"""The metrics of cards and compute units on tritonserver's port are those of the other server and of docs/metrics.md."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.host.sysfs import card_addresses
from hypersonic.host.telemetry import read_telemetry, serial_number
from hypersonic.triton.compile import CPP, STANDARD
from tests.host.conftest import Build, Cards
from tests.host.sysfs_tree import HWMON, XMC, MadeUp, fill
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support.both_servers import STARTS, Start
from tests.support.metrics_page import Listed, page
from tests.support.server_program import Program
from tests.support.triton_program import triton_program
from tests.support.waiting import wait_until
from tests.triton.rows import ask, expected, rows_of

pytestmark = pytest.mark.whole(
    "triton", "host", "server/observe", "server/backends", "sim/emu", "docs/metrics.md", "tests/triton/sensors.cpp"
)

SENSORS = Path(__file__).with_name("sensors.cpp")
#: of hypersonic's own server only: of models that take turns, and of fallback backends
NOT_IN_TRITON = ("fpga_model_", "fpga_fallback_")
#: bus -> the file `ready`
READY = {"3b": "0", "5e": "0x1", "af": "1"}
OF_SENSORS = ("fpga_card_power_watts", "fpga_card_temperature_celsius")
#: a row of backend/metrics.cpp: kind, name, text, label of the part
_ROW = re.compile(r'\{k(Counter|Gauge), "(fpga_\w+)",\s*"([^"]+)",\s*(?:nullptr|"(\w+)")')
_SERIES = re.compile(r"^(fpga_\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: name and labels -> value
Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def text_of(server: Program) -> str:
    with urllib.request.urlopen(f"http://{server.ports['Metrics Service']}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def series_of(text: str) -> Series:
    return {(name, frozenset(_LABEL.findall(labels))): float(value) for name, labels, value in _SERIES.findall(text)}


def total(text: str, name: str) -> float:
    """The sum over a family."""
    return sum(value for (each, _), value in series_of(text).items() if each == name)


def settled(server: Program, condition: Callable[[str], bool]) -> str:
    """The page once it fulfils the condition: tritonserver's is up to a second old."""
    texts = [""]

    def holds() -> bool:
        try:
            texts.append(text_of(server))
        except OSError:  # tritonserver announces the port before it listens
            return False
        return condition(texts[-1])

    wait_until(holds, 30, explain=lambda: texts[-1])
    return texts[-1]


def served(start: Start, repository: Repository) -> str:
    """The page of a server after seven requests, with two models on the only card."""
    with (
        start(f"--model-repository={repository.place}", environment={"HYPERSONIC_EMU_DEVICES": "1"}) as server,
        grpc.InferenceServerClient(server.grpc) as client,
    ):
        for request in range(7):
            x = rows_of(5, request)
            model, weight = (("a", 3), ("b", 40))[request % 2]
            np.testing.assert_array_equal(ask(client, x, model), expected(x, weight))
        return settled(server, lambda text: total(text, "fpga_compute_unit_runs_total") == 7)


def test_both_servers_show_the_same_metrics_with_the_same_labels_and_values(tmp_path: Path, weighted: Build) -> None:
    repository = Repository(tmp_path / "models")
    for name, weight in (("a", 3), ("b", 40)):
        repository.publish(name, linked(Xclbin.read(weighted[0]).bitstream, weights=True), weights=weight)
    texts = {name: served(start, repository) for name, start in STARTS.items()}
    ours, theirs = (series_of(texts[name]) for name in ("hypersonic", "tritonserver"))
    assert ours.keys() == theirs.keys()
    assert {key: theirs[key] for key in ours if "busy" not in key[0]} == {
        key: value for key, value in ours.items() if "busy" not in key[0]
    }
    for text in texts.values():
        assert total(text, "fpga_compute_unit_busy_cycles_total") > 0
        assert total(text, "fpga_compute_unit_busy_seconds_total") > 0


def listed_for_triton() -> Mapping[str, Listed]:
    """The rows of docs/metrics.md that are there in tritonserver too."""
    return {name: row for name, row in page().items() if name.startswith("fpga_") and not name.startswith(NOT_IN_TRITON)}


def families_of(text: str) -> dict[str, tuple[str, str]]:
    """name -> type, text."""
    helps = dict(re.findall(r"^# HELP (fpga_\w+) (.*)$", text, re.MULTILINE))
    return {name: (kind, helps[name]) for name, kind in re.findall(r"^# TYPE (fpga_\w+) (\w+)$", text, re.MULTILINE)}


def test_the_names_kinds_texts_and_labels_are_those_of_the_page(tmp_path: Path, image: bytes) -> None:
    repository = Repository(tmp_path / "models")
    repository.publish("m", linked(image, 2))
    with triton_program(f"--model-repository={repository.place}") as server:
        text = settled(server, lambda text: total(text, "fpga_compute_unit_in_service") == 2)
    listed = {name: row for name, row in listed_for_triton().items() if name not in OF_SENSORS}
    assert families_of(text) == {name: (row.kind, row.text) for name, row in listed.items()}
    for name, labels in series_of(text):
        assert {label for label, _ in labels} == listed[name].labels


def test_the_table_of_the_backend_is_that_of_the_page_with_what_only_a_real_card_has() -> None:
    """A family without a series is not on tritonserver's page, and an emulated card has no sensors."""
    rows = _ROW.findall((CPP / "backend" / "metrics.cpp").read_text())
    listed = listed_for_triton()
    assert {name: (kind.lower(), text) for kind, name, text, _ in rows} == {
        name: (row.kind, row.text) for name, row in listed.items()
    }
    of_units, of_cards = {"compute_unit", "gpu_uuid", "model", "version"}, {"gpu_uuid"}
    for _, name, _, part in rows:
        assert listed[name].labels == (of_units if "compute_unit" in name else of_cards) | ({part} if part else set())


def test_the_series_of_a_model_end_with_it_and_those_of_its_card_go_on(tmp_path: Path, image: bytes, cards: Cards) -> None:
    repository = Repository(tmp_path / "models")
    repository.publish("m", linked(image), parameters={"timeout_ms": "300", "retry_ms": "50"})
    environment = {"HYPERSONIC_EMU_HANG": "facile_1:2", "HYPERSONIC_EMU_DEVICES": "1", **cards.environment}
    options = (f"--model-repository={repository.place}", "--model-control-mode=explicit", "--load-model=m")
    with (
        triton_program(*options, environment=environment) as server,
        grpc.InferenceServerClient(server.grpc) as client,
    ):
        x = rows_of(4, 1)
        ask(client, x)
        with pytest.raises(InferenceServerException):
            ask(client, x, timeout_s=5)
        lost = settled(server, lambda text: total(text, "fpga_compute_unit_in_service") == 0)
        assert total(lost, "fpga_compute_unit_timeouts_total") == 1
        cards.reset(0)
        back = settled(server, lambda text: total(text, "fpga_compute_unit_in_service") == 1)
        assert total(back, "fpga_compute_unit_revived_total") == 1
        reloads = total(back, "fpga_card_xclbin_reloads_total")
        assert reloads >= 1, "one for each attempt until the card was reset"
        client.unload_model("m")
        gone = settled(server, lambda text: total(text, "fpga_card_bank_used_bytes") == 0)
        assert not any(name.startswith("fpga_compute_unit_") for name, _ in series_of(gone))
        assert total(gone, "fpga_card_dma_in_bytes_total") == total(back, "fpga_card_dma_in_bytes_total") > 0
        client.load_model("m")
        again = settled(server, lambda text: total(text, "fpga_card_xclbin_reloads_total") == reloads + 1)
        assert total(again, "fpga_compute_unit_runs_total") == 0


def test_the_sensors_of_cards_are_read_as_the_other_server_reads_them(sysfs: MadeUp) -> None:
    """The trees are made up, as those of tests/host/test_telemetry.py: no card has been read by either."""
    with_both, only_xmc, plain = (sysfs.card(f"0000:{bus}:00.1", ready) for bus, ready in READY.items())
    fill(with_both / "hwmon" / "hwmon3", HWMON)
    fill(with_both / "xmc.u.1", {**XMC, "serial_num": "2130048BS01B"})
    fill(only_xmc / "xmc.u.2", {**XMC, "xmc_cage_temp1": "31", "xmc_power": "-4", "serial_num": "000000"})
    fill(plain / "hwmon" / "hwmon0", {"temp2_input": "251000", "temp3_input": "33500", "temp4_input": "x"})
    fill(plain / "hwmon_sdm.u.1", {"serial_num": "XFL1ABC"})
    (plain / "hwmon" / "hwmon1").symlink_to(with_both / "hwmon" / "hwmon3")
    sysfs.card("0000:c1:00.1")
    sysfs.render_node(128, "0000:c1:00.1", given=False)

    def build(directory: Path) -> None:
        options = [STANDARD, "-O1", "-fsanitize=address,undefined", f"-I{CPP}"]
        verilator.run(["g++", *options, SENSORS, source, "-o", directory / "sensors"], directory)

    source = CPP / "card" / "sensors.cpp"
    program = cached("triton_sensors", [SENSORS, source, source.with_suffix(".hpp")], build) / "sensors"
    done = subprocess.run([program, sysfs.root], capture_output=True, text=True, timeout=60, check=True)
    lines = []
    for address in card_addresses(sysfs.root):
        read = read_telemetry(address, sysfs.root)
        lines.append(f"{address} serial {serial_number(address, sysfs.root) or ''}")
        lines += [f"{address} celsius {sensor} {celsius:g}" for sensor, celsius in sorted(read.temperatures_c.items())]
        lines += [f"{address} watts {read.power_w:.12g}"] if read.power_w is not None else []
    assert done.stdout.splitlines() == lines
    assert len(lines) > 10
