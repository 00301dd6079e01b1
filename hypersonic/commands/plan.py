# SPDX-License-Identifier: Apache-2.0
"""`hypersonic plan`: predict the cards, the rate and the latency of a farm."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypersonic.plan.answer import Plan
    from hypersonic.plan.farm import Batching, CardState, Guest, Later, LoadCard
    from hypersonic.plan.inputs import Question
    from hypersonic.server.core.scheduling.rule import BatchRule

HELP = "predict how many cards a farm of jobs needs, which part limits it, and the latencies"

_MORE = """\
A job works on an event, calls a server, waits for the answer, and goes on. The rate of N jobs is min(N / t_ideal, capacities):
below saturation jobs do not wait, above it the time per event grows with N. Latencies come from a simulation of the farm with
the server's own batching rule. Every number is marked measured, read from a file, or assumed; a clock is always assumed.
docs/plan.md explains the answer.

examples:
  hypersonic plan facile --jobs 3300
      an HLT farm: 3300 jobs of 0.6 s an event, one call of 16,000 rows each, U250 cards in servers with 25 Gb/s
  hypersonic plan facile --jobs 20000 --platform u55c --network-gbps 100 --p99-ms 5 --plot farm.png --json farm.json
  hypersonic plan emtrk --jobs 600 --cpu-s 330 --share 0.67 --rows 235 --calls 235
      an offline job: 330 s of processor time an event, 67 % of it in 235 calls
  hypersonic plan facile --model-repository models --metrics http://localhost:8002/metrics --events-per-s 2000
      a published model, and the service times that a running server has measured
  hypersonic plan --file farm.yaml
      the same from a file, with sections workload, model, site, target:
        workload: {jobs: 3300, cpu_s: 0.667, share: 0.1, rows: 16000, calls: 1}
        model: facile
        site: {platform: u250, server_gbps: 25, switch_gbps: 400, rtt_ms: 0.5}
        target: {added_percent: 3, headroom: 0.8}
      or a farm of several models, kinds of cards and classes of jobs, with sections models, pools, workloads, site, target
  hypersonic plan --check
      the published figures of the SONIC programme, computed by the same law

Exit code: 0, 1 if the target is not reached or a published figure is out, 2 for wrong input.
"""

#: option -> (field, metavar, help); the help of a number ends in its default
_OPTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "workload": {
        "--jobs": ("workload.jobs", "N", "jobs that run at the same time"),
        "--events-per-s": ("workload.events_per_s", "X", "events per second of all jobs, in place of --jobs"),
        "--cpu-s": ("workload.cpu_s", "S", "processor time of an event where nothing is accelerated (default: 0.667)"),
        "--share": ("workload.share", "P", "part of it that the calls replace, 0 to 1 (default: 0.1)"),
        "--rows": ("workload.rows", "N", "rows of a call (default: of a zoo model's event, or as measured; otherwise 16000)"),
        "--calls": ("workload.calls", "N", "calls of an event, one after the other (default: 1)"),
    },
    "model": {
        "--input-bytes": ("model.input_bytes", "N", "bytes of a row's inputs on the wire (default: the model's own)"),
        "--output-bytes": ("model.output_bytes", "N", "bytes of a row's results (default: the model's own)"),
        "--ii": ("model.ii", "CLOCKS", "clocks between two rows in the core, such as 1.125 (default: the model's own)"),
        "--units": ("model.units", "N", "compute units on a card (default: the model's own, 1 for a zoo model)"),
        "--service-ms": ("model.service_ms", "MS", "time of a call on a compute unit (default: it follows from the clocks)"),
    },
    "site": {
        "--cards": ("site.cards", "N", "cards (default: as many as the target needs)"),
        "--cards-per-server": ("site.cards_per_server", "N", "cards in a server (default: 1)"),
        "--kernel-mhz": ("site.kernel_mhz", "MHZ", "clock of the kernels (default: the platform's)"),
        "--network-gbps": ("site.server_gbps", "GBPS", "a server's link in Gb/s, in each direction (default: 25)"),
        "--switch-gbps": ("site.switch_gbps", "GBPS", "a link that all servers share (default: it never limits)"),
        "--background-gbps": ("site.background_gbps", "GBPS", "other traffic on that shared link (default: 0)"),
        "--rtt-ms": ("site.rtt_ms", "MS", "round trip between a job and a server (default: 0.5)"),
        "--server-cores": ("site.cores", "N", "processor cores of a server (default: 16)"),
        "--request-cpu-ms": ("site.request_cpu_ms", "MS", "time for which a core works on a request (default: as measured)"),
    },
    "target": {
        "--added-percent": ("target.added_percent", "PCT", "most time that queueing may add to an event (default: 3)"),
        "--p99-ms": ("target.p99_ms", "MS", "p99 of a call (default: not asked)"),
        "--event-s": ("target.event_s", "S", "time per event, in place of --added-percent (default: not asked)"),
        "--headroom": ("target.headroom", "H", "part of every capacity that may be used (default: 0.8)"),
    },
}  # fmt: skip

#: field -> option, of those whose values are texts
_TEXTS = {
    "model.repository": "--model-repository", "model.metrics": "--metrics", "site.platform": "--platform",
    "site.server": "--server",
}  # fmt: skip
_WHOLE = ("jobs", "rows", "calls", "input_bytes", "output_bytes", "units", "cards", "cards_per_server", "cores")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.description = f"{HELP[0].upper()}{HELP[1:]}.\n\n{_MORE}"
    parser.add_argument("model", nargs="?", default="", metavar="MODEL", help="a zoo name, or the folder of a published model")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="YAML or JSON file with the inputs; options replace its values"
    )
    parser.add_argument(
        "--check", action="store_true", help="print the published figures as this law computes them, and no plan"
    )
    for section, options in _OPTIONS.items():
        group = parser.add_argument_group(section)
        for option, (name, metavar, text) in options.items():
            kind = int if name.partition(".")[2] in _WHOLE else float
            group.add_argument(option, dest=name, type=kind, metavar=metavar, help=text, default=argparse.SUPPRESS)
        if section == "model":
            group.add_argument(
                "--model-repository", dest="model.repository", metavar="DIR", default=argparse.SUPPRESS,
                help="repository whose MODEL has a manifest with the bytes and clocks of a row",
            )  # fmt: skip
            group.add_argument(
                "--metrics", dest="model.metrics", metavar="URL", default=argparse.SUPPRESS,
                help="metrics of a running server, or a file with them: its measured service times replace clocks, PCIe and "
                "memory bank",
            )  # fmt: skip
        if section == "site":
            group.add_argument(
                "--platform", dest="site.platform", metavar="CARD", default=argparse.SUPPRESS, help="the card (default: u250)"
            )
            group.add_argument(
                "--server", dest="site.server", choices=("python", "triton"), default=argparse.SUPPRESS,
                help="python: hypersonic serve; triton: tritonserver with the fpga backend (default: python)",
            )  # fmt: skip
    output = parser.add_argument_group("output")
    output.add_argument("--plot", type=Path, metavar="FILE.png", help="draw time per event and latency (needs matplotlib)")
    output.add_argument("--json", type=Path, metavar="FILE", help="write the plan as JSON; --file reads its inputs again")
    output.add_argument("--no-simulation", dest="simulate", action="store_false", help="leave the latencies out")
    output.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the simulation (default: 1)")


def run(args: argparse.Namespace) -> int:
    """Print the plan, or the check of the published figures. Return 0, or 1 if the target or a figure is missed."""
    if args.check:
        from hypersonic.plan.published import check_passes, check_table

        print(check_table(), end="")
        return 0 if check_passes() else 1
    import json

    from hypersonic.plan.answer import as_data
    from hypersonic.plan.errors import PlanError
    from hypersonic.plan.make import check_question, make_plan
    from hypersonic.plan.report import show_plan

    if args.plot:
        from hypersonic.plan.picture import check_path

        check_path(args.plot, simulated=args.simulate)
    if args.json and not args.json.absolute().parent.is_dir():
        raise PlanError(f"--json is {str(args.json)!r}, and {args.json.absolute().parent} is not a directory; make it first")
    if args.file:
        from hypersonic.plan.mix.read import is_mixed
        from hypersonic.plan.read import load_document

        if is_mixed(document := load_document(args.file)):
            return _run_mixed(args, document)
    question = _question(args)
    check_question(question)
    batching = server_batching(question) if args.simulate else None
    plan = make_plan(question, batching=batching, simulate=args.simulate, seed=args.seed)
    show_plan(plan)
    if args.json:
        args.json.write_text(json.dumps(as_data(plan), indent=1) + "\n")
    if args.plot:
        _draw(plan, args.plot)
    return 0 if plan.reached else 1


def _run_mixed(args: argparse.Namespace, document: Any) -> int:
    """Plan a farm of several models, which only a file describes."""
    import json

    from hypersonic.plan.errors import PlanError
    from hypersonic.plan.mix.make import as_data, plan_mixed
    from hypersonic.plan.mix.read import read_mixed
    from hypersonic.plan.mix.report import show_mixed

    given = [option for options in _OPTIONS.values() for option, (name, _, _) in options.items() if hasattr(args, name)]
    given += [option for name, option in _TEXTS.items() if hasattr(args, name)]
    given += ["MODEL"] * bool(args.model) + ["--plot"] * bool(args.plot)
    if given:
        raise PlanError(
            f"{args.file} is a farm of several models, and {given[0]} is for a farm of one; change the file instead"
        )
    plan = plan_mixed(read_mixed(args.file, document), rule=server_turns, simulate=args.simulate, seed=args.seed)
    show_mixed(plan)
    if args.json:
        args.json.write_text(json.dumps(as_data(plan, document.get("inputs", document)), indent=1, allow_nan=False) + "\n")
    return 0 if plan.reached else 1


def server_turns(cards: Sequence[CardState], away: Sequence[Guest], now_ns: int) -> LoadCard | Later:
    """Return the next load by server/backends/fpga/turn_rule.py's choose_turn, in the simulation's types."""
    from hypersonic.plan.farm import Later, LoadCard
    from hypersonic.server.backends.fpga import turn_rule

    states = [
        turn_rule.CardState(card.number, tuple(turn_rule.Guest(*guest) for guest in card.guests), card.loaded_ns, card.kept)
        for card in cards
    ]
    choice = turn_rule.choose_turn(states, [turn_rule.Guest(*guest) for guest in away], now_ns)
    return LoadCard(*choice) if isinstance(choice, turn_rule.Load) else Later(*choice)


def _draw(plan: Plan, file: Path) -> None:
    from hypersonic.plan.picture import draw

    draw(plan, file)
    print(f"plot: {file}")


def _question(args: argparse.Namespace) -> Question:
    from hypersonic.plan.read import Given, make_question, of_options, read_file

    options: dict[str, tuple[str, Any]] = {
        name: (option, getattr(args, name))
        for options in _OPTIONS.values()
        for option, (name, _, _) in options.items()
        if hasattr(args, name)
    }
    for name, option in _TEXTS.items():
        if hasattr(args, name):
            options[name] = option, getattr(args, name)
    if args.model:
        options["model.name"] = "MODEL", args.model
    given = read_file(args.file) if args.file else Given()
    return make_question(given.under(of_options(options)))


def server_batching(question: Question) -> Batching:
    """Return the server's batching rule for the model, as the simulation takes it.

    The rule comes from the model's config.pbtxt if its folder was given, otherwise from a config.pbtxt such as `hypersonic
    build` publishes: slots, a preferred size, and a short delay. Raises ModelConfigError for a config.pbtxt that is not valid.
    """
    from hypersonic.firmware.card_parameters import SLOT_ROWS
    from hypersonic.firmware.publish.config_pbtxt import (
        FILE_NAME,
        MAX_QUEUE_DELAY_US,
        PREFERRED_BATCH_SIZE,
        SLOT_BYTES,
    )
    from hypersonic.server.core.config.read import read_config
    from hypersonic.server.core.scheduling.rule import BatchRule

    mark, rows = question.mark("model.ii"), max(1, min(SLOT_ROWS, SLOT_BYTES // max(question.model.row_bytes)))
    config = Path(mark.source).parent.parent / FILE_NAME
    if mark.basis == "read from a file" and config.is_file():
        described = read_config(config, config.parent.name)
        slot_rows = described.integer("slot_rows", rows)
        return batching_of(BatchRule.of(slot_rows, described.dynamic_batching, described.max_batch_size))
    preferred = frozenset({PREFERRED_BATCH_SIZE} if rows >= PREFERRED_BATCH_SIZE else ())
    return batching_of(BatchRule(rows, merge=True, preferred_rows=preferred, max_delay_ns=1000 * MAX_QUEUE_DELAY_US))


def batching_of(rule: BatchRule) -> Batching:
    """Return server/core/scheduling/rule.py's choose_batch with this rule, in the simulation's types."""
    from hypersonic.plan.farm import Queued, Take, Wait
    from hypersonic.server.core.scheduling.rule import QueuedRows, choose_batch
    from hypersonic.server.core.scheduling.rule import Take as ServerTake

    def choose(queue: Iterable[Queued], now_ns: int) -> Take | Wait:
        choice = choose_batch(rule, (QueuedRows(each.rows, each.enqueued_ns) for each in queue), now_ns)
        return Take(*choice) if isinstance(choice, ServerTake) else Wait(*choice)

    return choose
