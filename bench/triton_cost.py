# SPDX-License-Identifier: Apache-2.0
"""Compares the CPU time per request of four servers, in rounds that alternate.

    python -m bench.triton_cost [--requests 1000] [--rounds 3] [--loads facile,small]

echo        a bare grpcio server that answers with bytes of the right size
hypersonic  `hypersonic serve`: the fpga backend over an XRT library without a card
noop        tritonserver with a backend that copies each input into a buffer and each output out of it
fpga        tritonserver with the fpga backend over the same XRT library

CPU time is that of the server's process, read before and after. The figures are medians over the rounds. `hypersonic /
echo` is the cost of this server over that of gRPC, `fpga / noop` that of the backend over that of tritonserver. The clients
run on the same cores, so answers/s are those of this machine with both, and only their ratios say something.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.server_cost import LOADS, Load, Measured, Running, chosen, measured, running
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.hls import verilator
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.triton.compile import CPP, STANDARD, include_options
from hypersonic.triton.program import find_tritonserver
from hypersonic.triton.serve import arguments
from tests.support.ports import free_ports

HERE = Path(__file__).parent / "triton"
IN_FLIGHT = (1, 4, 16)
_PLATFORM = "u250"


def publish_models(repository: Path) -> str:
    """Publish a model for each load, all in one xclbin. Returns the uuid of the xclbin."""
    kernels = [LinkedKernel(load.name) for load in LOADS]
    xclbin = assemble_kernels(kernels, Target.HW, find_platform(_PLATFORM), b"no bitstream")
    uuid = ""
    for load in LOADS:
        manifest = Manifest.of(
            xclbin, model=load.name, kernel=load.name, platform=_PLATFORM, core="da", ii=1, latency_cycles=1,
            max_batch_size=160_000, inputs=Row((_inputs(load),)),
            outputs=Row((TensorSpec("y", (load.n_out,), FixedPoint(32, 16)),)),
        )  # fmt: skip
        publish(repository, xclbin, manifest, config_pbtxt(manifest))
        uuid = manifest.uuid
    return uuid


def _inputs(load: Load) -> TensorSpec:
    fixed = FixedPoint(8, 8, signed=False) if load.datatype == "UINT8" else FixedPoint(32, 16)
    return TensorSpec("x", (load.n_in,), fixed, datatype=load.datatype)


def noop_models(repository: Path) -> None:
    """Write a model of the noop backend for each load."""
    for load in LOADS:
        (repository / load.name / "1").mkdir(parents=True)
        (repository / load.name / "config.pbtxt").write_text(
            f'backend: "noop" max_batch_size: 160000\n'
            f'input [ {{ name: "x" data_type: TYPE_{load.datatype} dims: [ {load.n_in} ] }} ]\n'
            f'output [ {{ name: "y" data_type: TYPE_FP32 dims: [ {load.n_out} ] }} ]\n'
            "dynamic_batching { preferred_batch_size: [ 16000 ] max_queue_delay_microseconds: 100 }\n"
            "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
        )


def compile_tools(directory: Path) -> tuple[Path, Path]:
    """Compile the XRT library without a card and the noop backend. Returns the library, and a backend directory."""
    xrt, noop = directory / "libnull_xrt.so", directory / "backends" / "noop" / "libtriton_noop.so"
    noop.parent.mkdir(parents=True)
    verilator.run(["gcc", "-std=c11", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-o", xrt, HERE / "null_xrt.c"], directory)
    sources = [HERE / "noop_backend.cpp", CPP / "backend" / "triton.cpp"]
    flags = [STANDARD, "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    verilator.run(["g++", *flags, *include_options(directory), "-o", noop, *sources], directory)
    return xrt, noop.parents[1]


@contextmanager
def server(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[Running]:
    """Run a server inside the context, which logs its gRPC address."""
    with (
        log.open("w") as out,
        subprocess.Popen(argv, env={**os.environ, **env}, stdout=out, stderr=out, text=True) as process,
    ):
        try:
            while not (found := re.search(r"Started GRPCInferenceService at ([0-9.:]+)", log.read_text())):
                if process.poll() is not None:
                    raise RuntimeError(f"{argv[0]} ended: {log.read_text()[-2000:]}")
            yield Running(process, found[1])
        finally:
            process.terminate()


@contextmanager
def servers(scratch: Path) -> Iterator[dict[str, Running]]:
    """Run all four servers."""
    models, noop = scratch / "models", scratch / "noop"
    models.mkdir()
    uuid = publish_models(models)
    noop_models(noop)
    xrt, backends = compile_tools(scratch)
    triton = find_tritonserver()
    env = {**triton.env, "HYPERSONIC_XRT_LIBRARY": str(xrt), "NULL_XRT_UUID": uuid}
    quiet = ("--allow-http=false", "--allow-metrics=false", "--grpc-address=127.0.0.1")
    ours = [sys.executable, "-m", "hypersonic.cli", "serve", f"--model-repository={models}", *quiet, "--grpc-port=0"]
    fpga_port, bare_port = free_ports(2)
    fpga = arguments(triton, models, [*quiet, f"--grpc-port={fpga_port}"])
    bare = [str(triton.path), f"--backend-directory={backends}", f"--model-repository={noop}", *quiet]
    bare.append(f"--grpc-port={bare_port}")
    with ExitStack() as stack:
        yield {
            "echo": stack.enter_context(running("echo")),
            "hypersonic": stack.enter_context(server(ours, env, scratch / "hypersonic.log")),
            "noop": stack.enter_context(server(bare, env, scratch / "noop.log")),
            "fpga": stack.enter_context(server(fpga, env, scratch / "fpga.log")),
        }


def summary(rounds: Sequence[Sequence[Measured]]) -> str:
    """Return the medians over the rounds: each server's CPU time, the ratios of pairs of servers, and answers per second."""
    ours = statistics.median(mine.cpu_us / echo.cpu_us for echo, mine, *_ in rounds)
    backend = statistics.median(fpga.cpu_us / noop.cpu_us for *_, noop, fpga in rounds)
    servers = list(zip(*rounds, strict=True))
    cpu = "".join(f"{statistics.median(one.cpu_us for one in server):12.1f}" for server in servers)
    answers = "".join(f"{statistics.median(one.per_s for one in server):12.0f}" for server in servers)
    return f"{cpu}{ours:19.2f}{backend:14.2f} |          {answers}"


def main() -> None:
    """Measure, and print a line for each load and number of requests in flight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=1000, help="requests per round (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default: 3)")
    parser.add_argument("--loads", default=",".join(load.name for load in LOADS), help="which ones (default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, servers(Path(scratch)) as each:
        head = "".join(f"{name:>12}" for name in each)
        print(f"{'server CPU a request, us':24}{head}  hypersonic / echo   fpga / noop | answers/s{head}")
        for load in chosen(args.loads):
            for in_flight in IN_FLIGHT:
                rounds = [[measured(one, load, in_flight, args.requests) for one in each.values()] for _ in range(args.rounds)]
                print(f"{load.name:8} {in_flight:3} in flight   {summary(rounds)}", flush=True)


if __name__ == "__main__":
    main()
