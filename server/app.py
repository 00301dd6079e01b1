# SPDX-License-Identifier: Apache-2.0
"""The server program: binds and opens the ports, loads the models, serves, and drains.

::

    bound -> alive, not ready; serves metrics, and each model once it is loaded -> all loaded: ready, "Started ..." in the log
    SIGTERM -> not ready, new requests refused -> requests in flight end -> ports closed -> models unloaded -> exit 0

A second signal, or the exit timeout, ends it at once with exit code 1. SIGTERM while models are loading abandons the loads.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from hypersonic import __version__
from hypersonic.server.advice import advice
from hypersonic.server.announce import Announcement
from hypersonic.server.arguments import add_arguments
from hypersonic.server.backends.fpga.backend import FpgaBackend
from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.backends.python.bls import infer_by
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.ensemble.model import EnsembleModel
from hypersonic.server.core.inference.backend import Backend, Measuring
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.core.inference.shm import SharedMemory
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import ServerError, StartError
from hypersonic.server.limits.connections import ConnectionLimiter
from hypersonic.server.limits.descriptors import descriptor_limit, raise_descriptor_limit
from hypersonic.server.limits.message import Limits
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.limits.supervisor import Loops
from hypersonic.server.memory import raise_malloc_thresholds
from hypersonic.server.observe import log
from hypersonic.server.observe.log import LogControl, counted
from hypersonic.server.observe.metrics.page import Metrics, MetricsOptions
from hypersonic.server.observe.status.page import status_pages
from hypersonic.server.observe.status.reader import StatusReader
from hypersonic.server.observe.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.observe.tracing.trace import open_tracing
from hypersonic.server.options import Options
from hypersonic.server.repository.entry import models_failed, served_without
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.signals import FAILED, Signals, termination_signals
from hypersonic.server.statistics.latency_options import MetricsConfig
from hypersonic.server.statistics.refusals import Protocol
from hypersonic.server.wire.grpc.grpcio.server import GrpcioServer
from hypersonic.server.wire.grpc.health import HealthServicer, health_methods
from hypersonic.server.wire.grpc.methods import rpc_methods
from hypersonic.server.wire.grpc.servicer import Servicer
from hypersonic.server.wire.http import app as http
from hypersonic.server.wire.http.pages import page_route
from hypersonic.server.wire.security import asgi, tls
from hypersonic.server.wire.security.groups import Group
from hypersonic.server.wire.security.policies import every_port_guards, model_control, policies
from hypersonic.server.wire.service.inference import InferenceService
from hypersonic.server.wire.service.operations import Operations

__all__ = ["Options", "Server", "Signals", "add_arguments", "main", "serve"]
_LOG = logging.getLogger("hypersonic.server.app")  # the same name when it is run as __main__
#: the time limit at shutdown for sending a finished answer, and for receiving a request that has begun to arrive
_GRACE_S = 2.0
#: the shortest time that a step of the shutdown is given, even if the exit timeout has passed
_LEAST_S = 0.25
#: how long new requests are refused before the ports close, and how long a pause without new requests closes the ports earlier
_LINGER_S, _SILENCE_S = 1.0, 0.25


class Server:
    """The repository, the service and the front ends of one process.

    Order of calls: constructor (binds the ports), open(), load(), start(), stop().
    """

    def __init__(
        self, opts: Options, backends: Mapping[str, Backend] | None = None, log_control: LogControl | None = None
    ) -> None:
        """Create a Server.

        Args:
            backends: name in config.pbtxt -> backend, None = all that exist.
            log_control: the log that LogSettings changes.

        Raises:
            StartError: For a port that cannot be used, and for options or files that cannot be used.
        """
        self.options = opts
        for level, text in advice(opts):
            _LOG.log(level, "%s", text)
        self._announcement = Announcement(opts.grpc_address_file, has_grpc=opts.allow_grpc)
        self._policies = policies(opts)
        self._grpc_credentials, self._http_tls = tls.grpc_credentials(opts), tls.http_context(opts)
        self._metrics_config = MetricsConfig.of(opts.metrics_config)
        self._peers = Peers(opts.trusted_proxies)
        if log_control is not None:
            log_control.may_reduce = opts.allow_client_log_off or every_port_guards(opts, self._policies, Group.LOGGING)
        self._trace, self._log = TraceControl(TraceConfig.of(opts.trace_config, opts.deprecated_trace)), log_control
        known = backends if backends is not None else self._backends()
        self._custom_metrics = [backend.families for backend in known.values() if isinstance(backend, Measuring)]
        self.repository = ModelRepository(
            opts.model_repository,
            known,
            ScheduledModel,
            self._lost,
            control=model_control(opts, self._policies),
            ensembles=self._ensemble,
            metrics=self._metrics_config,
        )
        self.service = InferenceService(
            self.repository,
            strict_readiness=opts.strict_readiness,
            limit_bytes=opts.max_inflight_bytes,
            tracing=open_tracing(self._trace),
            client_timeout_s=opts.client_timeout_secs,
            peers=self._peers,
        )
        service = self.service
        limits = {"grpc": opts.grpc_max_connections, "http": opts.http_max_connections}
        limiter = ConnectionLimiter(lambda: service.ports, service.peers, service.saturation, limits, descriptor_limit())
        service.clients.watchers.append(limiter.enforce)
        regions = SharedMemory(max_read_bytes=opts.max_inflight_bytes) if opts.allow_client_shm else None
        self._servicer = Servicer(
            self.service, regions=regions, header_pattern=opts.grpc_header_forward_pattern,
            sequence_header=opts.sequence_header, threads=opts.grpc_infer_thread_count,
            limits=Limits.of_strings(opts.grpc_max_bytes_elements),
        )  # fmt: skip
        self._operations = Operations(self.service, server_id=opts.id, regions=regions, trace=self._trace, log=log_control)
        self._health = HealthServicer(self.service)
        self.addresses: dict[str, str] = {}
        self._http_sockets = self._bind_http()
        self._grpc = self._bind_grpc() if opts.allow_grpc else None
        self._http: http.HttpServer | None = None
        self._opened = False

    def _backends(self) -> Mapping[str, Backend]:
        """Return all backends, by their names in config.pbtxt."""

        def lookup(name: str, version: str) -> Model:  # the backends are made before the repository
            return self.repository.model(name, version)

        links = self.options.model_control.links(self.options.model_repository)
        python = PythonBackend(infer_by(lookup), load_timeout_s=self.options.model_control.load_timeout_s, links=links)
        fpga = FpgaBackend(links=links, allow_emulated=self.options.allow_emulated_override)
        return {"fpga": fpga, "onnxruntime": OnnxRuntimeBackend(links), "python": python}

    def _ensemble(self, config: ModelConfig, version: int, repository: ModelRepository) -> Model:
        return EnsembleModel(config, version, repository.model, metrics=self._metrics_config, peers=self._peers)

    def _lost(self) -> None:
        service = getattr(self, "service", None)  # the repository is made before the service
        if service is not None:
            service.changed()

    def _bind_http(self) -> dict[str, http.Listener]:
        wanted = (
            ("HTTPService", self.options.allow_http, self.options.http_address, self.options.http_port),
            (
                "Metrics Service",
                self.options.allow_metrics,
                self.options.metrics_address or self.options.http_address,
                self.options.metrics_port,
            ),
        )
        shared = {"HTTPService": self.options.reuse_http_port}
        sockets = {
            name: http.listen(address, port, shared=shared.get(name, False))
            for name, allowed, address, port in wanted
            if allowed
        }
        for name, listener in sockets.items():
            address, port = listener.getsockname()[:2]
            self.addresses[name] = _join(address, port)
        return sockets

    def _bind_grpc(self) -> GrpcioServer:
        opts, service = self.options, self.service
        compress = opts.grpc_infer_response_compression_level != "none"
        groups = rpc_methods(service, self._servicer, self._operations, threads=opts.grpc_infer_thread_count, compress=compress)
        server = GrpcioServer(
            (*groups, health_methods(self._health)),
            self._policies.grpc,
            partial(service.refusals.add, Protocol.GRPC),
            service.clients,
            service.peers,
            opts.grpc_channel_options,
        )
        for name, budget in server.budgets.items():
            service.saturation.add(name, budget)
        address, port = opts.grpc_address, opts.grpc_port
        try:
            bound = server.bind(_join(address, port), self._grpc_credentials)
        except RuntimeError as error:
            http.listen(address, port).close()  # gRPC does not report the reason; this raises StartError with it
            raise StartError(http.bind_failure(address, port, str(error))) from error
        self.addresses["GRPCInferenceService"] = _join(address, bound)
        return server

    def load(self) -> None:
        """Load every model. Each is served as soon as it is loaded.

        Raises StartError for a repository that cannot be read, and ModelsFailedError for a model that cannot be served, unless
        exit_on_error is false.
        """
        failed = self.repository.load_all()
        if failed and self.options.exit_on_error:
            raise models_failed(failed)
        if failed and not self.service.admission.closed:
            _LOG.warning("%s", served_without(failed, strict=self.options.strict_readiness))

    def open(self) -> None:
        """Open the ports. The server is then alive and not ready. Raises StartError for a repository that cannot be read."""
        self.repository.check()
        self._opened = True
        opts = self.options
        metrics_options = MetricsOptions(
            self._metrics_config, opts.metrics_interval_ms, opts.allow_gpu_metrics, opts.allow_cpu_metrics
        )
        asked = {"HTTPService": self._policies.http, "Metrics Service": self._policies.metrics}
        self.service.ports.update(
            (front_end, int(self.addresses[name].rpartition(":")[2]))
            for front_end, name in (("grpc", "GRPCInferenceService"), ("http", "HTTPService"), ("metrics", "Metrics Service"))
            if name in self.addresses
        )
        self.applications = {
            "HTTPService": http.inference_app(
                self.service,
                self._operations,
                http.HttpLimits(
                    opts.http_max_input_size,
                    opts.http_infer_thread_count,
                    opts.http_header_forward_pattern,
                    opts.sequence_header,
                ),
                [page_route(page, Group.STATISTICS) for page in status_pages(StatusReader(self.service, opts.id))],
            ),
            "Metrics Service": http.metrics_app(Metrics(self.service, metrics_options, self._custom_metrics).text),
        }
        refused = partial(self.service.refusals.add, Protocol.HTTP)
        self._http = http.HttpServer(
            [
                (asgi.protect(self.applications[name], asked[name], refused), listener)
                for name, listener in self._http_sockets.items()
            ],
            tls=self._http_tls,
            clients=self.service.clients,
        )
        self.service.open()
        if self._grpc is not None:
            self._grpc.start()
        self._http.start()
        self.service.progress.start(self._loops)
        for name, address in self.addresses.items():
            _LOG.info("%s listens at %s; the server is ready when the models are loaded", name, address)

    def _loops(self) -> Loops:
        """Yield the loops that take calls and start runs."""
        if self._grpc is not None:
            yield from self._grpc.loops()
        if self._http is not None:
            yield "the event loop of HTTP", self._http.comes_round
        for model in self.repository:
            yield f"the scheduler of model '{model.name}' version {model.version}", model.comes_round

    def start(self) -> None:
        """Make the server ready, once the models are loaded, and log it with Triton's texts, which scripts wait for."""
        if not self._opened:
            self.open()
        self.service.start()
        for name in ("GRPCInferenceService", "HTTPService", "Metrics Service"):
            if name in self.addresses:
                _LOG.info("Started %s at %s", name, self.addresses[name])
        self._tell_served()
        self._announcement.ready(self.addresses.get("GRPCInferenceService", ""))

    def _tell_served(self) -> None:
        """Log how many models are served, and that the repositories are empty if they are."""
        rows = self.repository.index()
        ready = [row.name for row in rows if row.state is ModelState.READY]
        models, versions = counted(len(set(ready)), "model is", "models are"), counted(len(ready), "version", "versions")
        _LOG.info("%s served, %s in all", models, versions)
        if not rows:
            places = ", ".join(map(str, self.options.model_repository))
            _LOG.warning("no model is in %s, expected <repository>/<model>/<version>/<file of the model>", places)

    def stop(self, signals: Signals) -> bool:
        """Drain, close the ports and unload the models. Returns whether everything ended in time."""
        deadline = (begin := time.monotonic()) + self.options.exit_timeout_secs
        busy = self.service.admission.requests > 0
        self._announcement.stopping()
        self.service.progress.close()
        self.service.stop_taking()
        self.repository.stop_loading()
        self._begin_shutdown(min(_GRACE_S, self.options.exit_timeout_secs / 2))
        drained = self.service.drain(self.options.exit_timeout_secs, signals.patience)
        self._linger(signals, busy=busy)
        self.service.end_streams()
        self._health.close()
        self._stop_grpc(signals, min(time.monotonic() if busy else begin, deadline - _GRACE_S) + _GRACE_S)
        if self._grpc is not None:
            self._grpc.close()
        if self._http is not None:
            self._http.stop(_GRACE_S)
        closed = drained and self._unload(signals, max(_LEAST_S, deadline - time.monotonic()))
        self.service.tracing.close(_GRACE_S)
        self.service.clients.close()
        self._tell(closed=closed)
        return closed

    def _begin_shutdown(self, grace_s: float) -> None:
        """Set how long clients may take to send the rest of a request, and to begin to read an answer."""
        self.service.clients.begin_shutdown(grace_s, self.options.exit_timeout_secs / 2)
        if self._http is not None:
            self._http.begin_shutdown(grace_s)

    def _stop_grpc(self, signals: Signals, deadline: float) -> None:
        """Stop gRPC. Finished answers may be sent until the deadline; gRPC waits for idle connections until then too."""
        grace_s = max(_LEAST_S, deadline - time.monotonic())
        stopped = self._grpc.stop(grace_s) if self._grpc is not None else None
        while stopped is not None and not stopped.wait(0.05) and time.monotonic() < deadline + _LEAST_S:
            if not signals.patience(0.0):
                return

    def _tell(self, *, closed: bool) -> None:
        """Log which clients and requests did not end in time."""
        if cut_off := self.service.clients.counts[Fault.SHUTDOWN]:
            text = "%s cut off: a request had not arrived completely, or an answer was not read."
            _LOG.warning(text, counted(cut_off, "client was", "clients were"))
        if not closed and (working := self.repository.working()):
            _LOG.error("Requests that did not end: %s", ", ".join(working))

    def _unload(self, signals: Signals, timeout_s: float) -> bool:
        """Close the repository. Returns False if that takes longer, or if another signal arrives."""
        ended: list[bool] = []
        closing = threading.Thread(target=lambda: ended.append(self.repository.close(timeout_s)), name="unload", daemon=True)
        closing.start()
        deadline = time.monotonic() + timeout_s + _LEAST_S
        if working := self.repository.working():
            _LOG.warning("Models still run requests whose clients have left: %s", ", ".join(working))
        while closing.is_alive() and time.monotonic() < deadline:
            closing.join(0.05)
            if not signals.patience(0.0):
                return False
        return ended == [True]

    def _linger(self, signals: Signals, *, busy: bool) -> None:
        """Keep refusing new requests for a moment. Once gRPC closes, clients get only CANCELLED, without the reason."""
        admission = self.service.admission
        deadline = time.monotonic() + _LINGER_S
        told = 0 if busy else admission.refused_closed
        while (busy or admission.refused_closed > told) and time.monotonic() < deadline:
            busy, told = False, admission.refused_closed
            if not signals.patience(_SILENCE_S):
                return


def _join(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def serve(args: argparse.Namespace) -> int:
    """Run a server until SIGTERM or SIGINT, and return the process's exit code. Main thread only.

    If requests are still running after the exit timeout, or a second signal arrives, the process ends here with exit code 1.
    Raises StartError for mistakes that the operator has to correct.
    """
    opts = Options.of(args)
    raise_malloc_thresholds()
    os.environ.update(opts.emulation)  # the emulated XRT library reads it, in this process
    log_control = log.configure(
        verbose=opts.log_verbose,
        info=opts.log_info,
        warning=opts.log_warning,
        error=opts.log_error,
        log_format=opts.log_format,
        log_file=opts.log_file,
    )
    _LOG.info("hypersonic %s (Triton protocol)", __version__)
    raise_descriptor_limit()
    with termination_signals() as signals:
        server = Server(opts, log_control=log_control)
        server.open()
        failures: list[BaseException] = []
        threading.Thread(target=_load, args=(server, signals, failures), name="load", daemon=True).start()
        number = signals.wait()
        if number == FAILED:
            server.stop(signals)
            raise failures[0]
        _LOG.info("Signal (%d) received.", number)
        if server.stop(signals):
            _LOG.info("All requests are answered and all models unloaded.")
            if server.repository.abandoned:
                logging.shutdown()
                os._exit(0)  # threads of loads that did not end cannot be joined
            return 0
    _LOG.error("Exit timeout expired or second signal received. Exiting immediately.")
    logging.shutdown()
    os._exit(1)  # threads that still wait for a card cannot be joined


def _load(server: Server, signals: Signals, failures: list[BaseException]) -> None:
    """Load and start the server. An exception is passed to the main thread."""
    try:
        server.load()
        if not server.service.admission.closed:
            server.start()
    except BaseException as error:  # noqa: BLE001 - the main thread raises it again
        failures.append(error)
        signals.put(FAILED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m hypersonic.server.app` and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="hypersonic serve", description="Serve models on this host's cards over Triton's protocol."
    )
    add_arguments(parser)
    try:
        return serve(parser.parse_args(argv))
    except ServerError as error:
        sys.stderr.write(f"hypersonic: error: {error}\n")
        return int(getattr(error, "exit_code", 1))


if __name__ == "__main__":
    raise SystemExit(main())
