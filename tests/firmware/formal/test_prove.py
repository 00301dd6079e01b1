# SPDX-License-Identifier: Apache-2.0
"""The formal proofs catch a broken module, each family of properties its own kind of break; `make formal` runs them all."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from hypersonic.firmware.formal import prove as proving
from hypersonic.firmware.formal import stages
from hypersonic.firmware.formal.prove import ProofError, Verdict, main, proofs, prove, texts, verdict
from tests.firmware.formal.covered import COVERED


class Break(NamedTuple):
    proof: str
    before: str
    after: str
    task: str = "prove"
    #: the module that is broken, if it is not the one with the name of the proof
    module: str = ""
    #: the rule that is broken: a file and the text of its assertion
    rule: tuple[str, str] = ("", "")


#: the queue of axi_write_master that gives W its bursts, and the same when it gets a burst only after AWREADY
_W_QUEUE = """\
  axis_fifo #(
      .WIDTH(8 + 1 + BEAT_BYTES),
      .DEPTH(OUTSTANDING)
  ) u_axis_fifo_w (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid({valid}),
      .s_axis_tready(w_s_ready),  // never low: the FIFO has room for all bursts that due_q counts
      .s_axis_tdata ({data}),
"""
_W_OFFERED = ("ask", "{8'(burst_beats - 1'b1), single, strobes(burst_end) | {BEAT_BYTES{!burst_last}}}")
_W_TAKEN = ("m_axi_awvalid && m_axi_awready", "{aw_len_q, aw_len_q == '0, strobes(aw_end_q)}")
_AW_END = """\
  logic [BYTE_BITS-1:0] aw_end_q;
  always_ff @(posedge clk) if (ask) aw_end_q <= burst_last ? burst_end : '1;
"""


def _w_queue(valid: str, data: str) -> str:
    return _W_QUEUE.replace("{valid}", valid).replace("{data}", data)


BREAKS = {
    "data wait for AWREADY": Break("axi_write_master", _w_queue(*_W_OFFERED), _AW_END + _w_queue(*_W_TAKEN)),
    "the kernel's data wait for AWREADY": Break(
        "kernel_shell",
        _w_queue(*_W_OFFERED),
        _AW_END + _w_queue(*_W_TAKEN),
        "bmc",
        "axi_write_master",
        ("axi_write_rules.sv", "assert (w_prompt);"),
    ),
    "data of a burst for PCIM wait for AWREADY": Break(
        "axi_write_merge", "giving_q   <= leave ||", "giving_q   <= (aw_valid_q && m_axi_awready) ||"
    ),
    "a register's data wait for AWREADY": Break(
        "ocl_decode",
        "(m_axi_wvalid & ~m_axi_wready) | (write_unit_q & {UNITS{write}});",
        "(m_axi_wvalid & ~m_axi_wready) | (m_axi_awvalid & m_axi_awready);",
        "bmc",
        rule=("axi_lite_rules.sv", "assert (together);"),
    ),
    "a read waits for ARREADY": Break(
        "axi_read_master", "room && below && (!ar_valid_q || m_axi_arready)", "room && below && m_axi_arready"
    ),
    "a read of PCIM waits for ARREADY": Break(
        "axi_read_merge", "!used_q[SLOT_BITS] && (!ar_valid_q || m_axi_arready)", "!used_q[SLOT_BITS] && m_axi_arready"
    ),
    "a shared port's read waits for ARREADY": Break("axi_read_share", "(!ar_valid_q || m_axi_arready) &&", "m_axi_arready &&"),
    "a beat of a shared port waits for RREADY": Break(
        "axi_read_share", "owner & {N{owner_valid && m_axi_rvalid}}", "owner & s_axi_rready & {N{owner_valid && m_axi_rvalid}}"
    ),
    "a response waits for BREADY": Break(
        "kernel_control",
        "write = aw_valid_q && w_valid_q && !b_valid_q;",
        "write = aw_valid_q && w_valid_q && !b_valid_q && s_axi_control_bready;",
        rule=("axi_lite_rules.sv", "assert (prompt);"),
    ),
    "a read is taken during the reset": Break(
        "kernel_control",
        "s_axi_control_arready = open_q && !ar_valid_q && !r_valid_q;",
        "s_axi_control_arready = !ar_valid_q && !r_valid_q;",
        rule=("axi_lite_rules.sv", "if (in_reset_q) assert (!awready && !wready && !arready);"),
    ),
    "an address is taken during the reset": Break(
        "ocl_decode",
        "s_axi_awready = open_q && !aw_held_q;",
        "s_axi_awready = !aw_held_q;",
        "bmc",
        rule=("axi_lite_rules.sv", "if (in_reset_q) assert (!awready && !wready && !arready);"),
    ),
    "a burst is as long as it likes": Break("axi_burst_split", "high == '0 && left_q[BURST_BITS:0] <= room_q;", "1'b1;"),
    "the older beat is overtaken": Break("axis_skid", "skid_valid_q ? skid_data_q : s_axis_tdata", "s_axis_tdata"),
    "a full FIFO takes a beat": Break("axis_fifo", "assign write = s_axis_tvalid && room_q;", "assign write = s_axis_tvalid;"),
    "a run's rest reaches the next run": Break(
        "axis_tensor_unpack", "kept_q  <= '0;\n        needs", "kept_q  <= next_with;\n        needs", "prove_3x1"
    ),
    "a beat's words are a place too high": Break(
        "axis_tensor_unpack", "assign by = kept[2*s+:2];", "assign by = kept[2*s+:2] + 1'b1;", "prove_3x1"
    ),
    "a beat is written over words that are held": Break(
        "axis_tensor_unpack", "places[i] = kept <= FILL_BITS'(i);", "places[i] = 1'b1;", "prove_3x1"
    ),
    "a tensor's last piece is counted as long as the next tensor's": Break(
        "axis_tensor_unpack",
        "turn[t] ? kept_q - FILL_BITS'(PIECE)",
        "turn[t] ? kept_q - FILL_BITS'(ends ? AFTER : PIECE)",
        "prove_2x2_1x1",
    ),
    "a row joins the run before": Break(
        "axis_row_pack",
        "wire fits = BEAT_AT_MOST || (flush_q ? ends :",
        "wire fits = BEAT_AT_MOST || (flush_q ||",
        "prove_3_4",
    ),
    "a consumer takes a beat twice": Break("axis_broadcast", "{N{s_axis_tvalid}} & ~taken_q", "{N{s_axis_tvalid}}"),
    "a beat goes before all are there": Break("axis_join", "= &s_axis_tvalid;", "= |s_axis_tvalid;"),
    "a result finds no place": Break("axis_free_running", "assign s_axis_tready = ready_q;", "assign s_axis_tready = 1'b1;"),
    "a held row is overwritten": Break("axis_wire_to_fixed", ".m_axis_tready (m_axis_tready),", ".m_axis_tready (1'b1),"),
    "a last row of codes is lost": Break(
        "axis_codes_to_fixed", ".s_axis_tvalid (s_axis_tvalid),", ".s_axis_tvalid (s_axis_tvalid && !s_axis_tlast),"
    ),
    "tlast comes with another row": Break(
        "axis_fixed_to_wire", ".s_axis_tlast  (s_axis_tlast),", ".s_axis_tlast  (m_axis_tlast),"
    ),
    "bytes of input rows are written": Break(
        "kernel_runs",
        "PART'(n * ROW_OUT_BYTES)",
        "PART'(n * ROW_IN_BYTES)",
    ),
    "a burst is asked for one beat short of room": Break(
        "axi_read_master", "free_q >= (DEPTH_BITS + 1)'(burst_beats)", "free_q + 1'b1 >= (DEPTH_BITS + 1)'(burst_beats)"
    ),
    "the last beat is written in full": Break(
        "axi_write_master",
        "w_strobes | {BEAT_BYTES{!m_axi_wlast}}",
        "{BEAT_BYTES{1'b1}}",
    ),
    "done comes before its response": Break(
        "axi_write_master", "!m_axis_done_tvalid && (order_empty || m_axi_bvalid)", "!m_axis_done_tvalid"
    ),
    "an answer is lost": Break(
        "axi_write_master", "m_axis_done_tvalid <= order_last;", "m_axis_done_tvalid <= order_last && !order_empty;"
    ),
    "an ID is given out that is still on its way": Break(
        "axi_read_merge", "burst_valid && !used_q[SLOT_BITS] &&", "burst_valid &&"
    ),
    "a slot is read before its beat has come": Break(
        "axi_read_merge", "wire                 waits = seen_q != beat_q;", "wire waits = known_q;"
    ),
    "a burst's second beat is its neighbour's": Break(
        "axi_read_share", "m_axi_rvalid && m_axi_rready && m_axi_rlast", "m_axi_rvalid && m_axi_rready"
    ),
    "a burst goes out whose owner finds no place": Break(
        "axi_read_share", "m_axi_arready) && owners_ready &&", "m_axi_arready) &&"
    ),
    "the core is reset while a run is at work": Break("kernel_weights", " && !same_q && flying_q == '0;", " && !same_q;"),
    "a run passes with another one's weights": Break(
        "kernel_weights", "m_axis_run_tvalid = checked_q && same_q;", "m_axis_run_tvalid = checked_q;"
    ),
    "beats of the old weights reach the core": Break(
        "kernel_weights", "s_axis_run_tvalid && quiet_q &&", "s_axis_run_tvalid &&"
    ),
    "an address leaves before its data": Break("axi_write_merge", ".s_axis_tvalid(come_last_q),", ".s_axis_tvalid(took_q),"),
    "a run that ends while a report leaves is not told": Break(
        "run_report", "((news_q && !start) || run_done != '0)", "((news_q || run_done != '0) && !start)"
    ),
    "a report waits for its address to be taken": Break(
        "run_report", "m_axi_wvalid  <= start ||", "m_axi_wvalid  <= (m_axi_awvalid && m_axi_awready) ||"
    ),
    "a read of nothing is not answered": Break("ocl_decode", "(read && read_unit_q == '0) || r_taken", "r_taken", "bmc"),
    "two bursts leave at once": Break("axi_write_merge", "!aw_valid_q && !giving_q", "!aw_valid_q"),
    "a response is dropped": Break(
        "kernel_control", "write = aw_valid_q && w_valid_q && !b_valid_q;", "write = aw_valid_q && w_valid_q;"
    ),
    "a start is accepted twice": Break("kernel_control", "else if (accept) start_q <= 1'b0;", ""),
    "arguments are not latched": Break("kernel_control", "      m_axis_run_y    <= y_q;\n", "      m_axis_run_y    <= x_q;\n"),
    "one acknowledgement is for all": Break(
        "kernel_control", "done_q + RUN_BITS'(done) - RUN_BITS'(acknowledge)", "acknowledge ? '0 : done_q + RUN_BITS'(done)"
    ),
    "the shell writes rows as long as those it reads": Break(
        "kernel_shell",
        "      .ROW_OUT_BYTES(ROW_OUT_BYTES),\n      .BEAT_BYTES",
        "      .ROW_OUT_BYTES(ROW_IN_BYTES),\n      .BEAT_BYTES",
        "bmc",
    ),
}


@pytest.mark.whole(*COVERED)
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_a_broken_module_does_not_pass_its_proof(tmp_path: Path, broken: Break) -> None:
    file = f"{broken.module or broken.proof}.sv"
    text = texts(broken.proof)[file]
    assert text.count(broken.before) == 1
    with pytest.raises(ProofError, match=f"proof {broken.proof}: .* does not hold") as failure:
        prove(broken.proof, tmp_path, {file: text.replace(broken.before, broken.after)}, [broken.task])
    rules, assertion = broken.rule
    if rules:
        (line,) = (number for number, text in enumerate(_lines(broken.proof, rules), 1) if text.strip() == assertion)
        assert f"{rules}:{line}." in str(failure.value)


def _lines(proof: str, file: str) -> list[str]:
    return texts(proof)[file].splitlines()


def test_the_proofs_that_begin_first_exist() -> None:
    assert set(proofs()) >= proving.LONG


def test_every_proof_has_a_break_that_it_catches() -> None:
    assert {broken.proof for broken in BREAKS.values()} == set(proofs()) - set(stages.table())


@pytest.mark.whole(*COVERED)
def test_a_sound_module_passes_its_proof(tmp_path: Path) -> None:
    assert sorted(prove("axis_skid", tmp_path).tasks) == ["cover", "prove"]


@pytest.mark.whole(*COVERED)
def test_a_state_that_is_never_reached_fails_its_proof(tmp_path: Path) -> None:
    text = texts("axis_skid")["axis_skid_proof.sv"]
    unreachable = text.replace("cover (started_q && rst_n && held_q == 2'd2", "cover (started_q && rst_n && held_q == 2'd3")
    with pytest.raises(ProofError, match=r"proof axis_skid: axis_skid_proof\.sv\S+ is never reached"):
        prove("axis_skid", tmp_path, {"axis_skid_proof.sv": unreachable}, ["cover"])


@pytest.mark.whole(*COVERED)
def test_what_was_proved_is_not_run_again_until_a_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def count(name: str, directory: Path) -> Verdict:
        runs.append(name)
        return Verdict(("cover", "prove"), (), 1, 2)

    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(proving, "prove", count)
    assert verdict("axis_skid") == verdict("axis_skid") == Verdict(("cover", "prove"), (), 1, 2)
    sources = texts("axis_skid") | {"axis_skid.sv": "// another\n"}
    monkeypatch.setattr(proving, "texts", lambda _: sources)
    verdict("axis_skid")
    assert runs == ["axis_skid", "axis_skid"]


@pytest.mark.whole(*COVERED)
def test_the_command_prints_a_line_a_module_and_fails_with_the_property_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(name: str) -> Verdict:
        if name == "axis_fifo":
            raise ProofError("proof axis_fifo: axis_fifo_proof.sv:80 does not hold")
        return Verdict(("bmc", "cover"), (12,), 3, 7)

    monkeypatch.setattr(proving, "verdict", judge)
    assert main(["axis_skid", "axis_fifo"]) == 1
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()] == [
        ["module", "tasks", "kind", "covers", "seconds"],
        ["axis_skid", "2", "bounded,", "depth", "12", "3", "7"],
        ["axis_fifo:", "FAILED"],
    ]
    assert "axis_fifo_proof.sv:80 does not hold" in shown.err


def test_an_unknown_proof_is_named_with_those_there_are() -> None:
    with pytest.raises(ProofError, match="proof 'nonesuch' does not exist, expected one of axi_burst_split"):
        texts("nonesuch")


@pytest.mark.whole(*COVERED)
@pytest.mark.timeout(3600)
def test_every_proof_of_the_rtl_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().err
