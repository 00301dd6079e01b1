# SPDX-License-Identifier: Apache-2.0
"""The command line, as scripts written for tritonserver give it."""

from __future__ import annotations

import argparse
import logging
import re
from pathlib import Path

import pytest

from hypersonic.server.advice import advice
from hypersonic.server.app import add_arguments
from hypersonic.server.errors import StartError
from hypersonic.server.observe.tracing.settings import TraceConfig
from hypersonic.server.options import Options
from tests.server.conftest import Serve, write_model

#: every option of tritonserver (its command_line_parser.cc of August 2026), with a value a script may give
_LINES = """
--id=n --exit-timeout-secs=5 --model-store=m --exit-on-error=false --strict-readiness=false
--model-control-mode=EXPLICIT --repository-poll-secs=3 --load-model=* --model-load-thread-count=2 --model-load-retry-count=1
--model-namespacing=false --enable-peer-access=false --allow-http=1 --http-address=::1 --http-port=0 --reuse-http-port=true
--http-header-forward-pattern=x-.* --http-thread-count=4 --http-max-input-size=100 --http-restricted-api=trace:k=v
--allow-grpc=on --grpc-address=::1 --grpc-port=0 --reuse-grpc-port=1 --grpc-header-forward-pattern=x --grpc-infer-thread-count=2
--grpc-infer-allocation-pool-size=8 --grpc-max-response-pool-size=8 --grpc-use-ssl=false --grpc-use-ssl-mutual=false
--grpc-server-cert=c --grpc-server-key=k --grpc-root-cert=r --grpc-infer-response-compression-level=none
--grpc-keepalive-time=1 --grpc-keepalive-timeout=1 --grpc-keepalive-permit-without-calls=1 --grpc-http2-max-pings-without-data=1
--grpc-http2-min-recv-ping-interval-without-data=1 --grpc-http2-max-ping-strikes=1 --grpc-max-connection-age=1
--grpc-max-connection-age-grace=1 --grpc-restricted-protocol=trace:k=v --log-verbose=true --log-info=0 --log-warning=0
--log-error=0 --log-format=ISO8601 --log-file=f --allow-sagemaker=false --sagemaker-port=1 --sagemaker-safe-port-range=1-2
--sagemaker-thread-count=1 --allow-vertex-ai=false --vertex-ai-port=1 --vertex-ai-thread-count=1 --vertex-ai-default-model=m
--allow-metrics=1 --allow-gpu-metrics=0 --allow-cpu-metrics=0 --metrics-address=::1 --metrics-port=0 --metrics-interval-ms=500.0
--metrics-config=counter_latencies=true --trace-config=rate=1 --cache-config=local,size=1 --cache-directory=d
--rate-limit=execution_count --rate-limit-resource=a:1:0 --pinned-memory-pool-byte-size=1 --cuda-memory-pool-byte-size=0:1
--cuda-virtual-address-size=0:1 --min-supported-compute-capability=6.0 --buffer-manager-thread-count=1
--host-policy=p,numa-node=0 --model-load-gpu-limit=0:0.5 --allow-client-shm=true --backend-directory=d
--backend-config=python,shm-default-byte-size=1 --repoagent-directory=d --strict-model-config=false
--response-cache-byte-size=1 --trace-file=t --trace-level=TIMESTAMPS --trace-rate=1 --trace-count=-1 --trace-log-frequency=1
"""
TRITON = tuple(_LINES.split())


def parsed(*arguments: str) -> Options:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return Options.of(parser.parse_args(["--model-repository=m", *arguments]))


@pytest.mark.parametrize("option", TRITON)
def test_an_option_of_tritonserver_is_taken_with_an_equals_sign_and_without(option: str) -> None:
    assert parsed(option) == parsed(*option.split("=", 1))


def test_values_are_read_as_tritonserver_reads_them() -> None:
    opts = parsed(
        "--model-control-mode=Explicit", "--log-verbose=True", "--metrics-interval-ms=500.0", "--strict-readiness=OFF"
    )
    assert (opts.model_control_mode, opts.log_verbose, opts.metrics_interval_ms) == ("explicit", 1, 500)
    assert not opts.strict_readiness
    assert parsed("--log-verbose=false").log_verbose == 0


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--allow-sagemaker=true", "there is no SageMaker front end here"),
        ("--allow-sagemaker", "there is no SageMaker front end here"),
        ("--allow-vertex-ai=1", "there is no Vertex AI front end here"),
        ("--model-namespacing=true", "models of one name in several repositories cannot be served here"),
        ("--model-config-name=h100", "only config.pbtxt is read here"),
        ("--allow-sagemaker=perhaps", "'perhaps' is neither true nor false"),
        ("--trace-level=everything", "--trace-config is 'level=everything', expected "),
        ("--trace-level=TENSORS", "--trace-config is 'level=TENSORS', expected "),
        ("--metrics-interval-ms=fast", "'fast' is not a number from 0 to 2147483647"),
        ("--http-port=80000", "'80000' is not a port, expected 0 to 65535 (0: any free one)"),
    ],
)
def test_an_option_that_would_mean_something_else_here_is_refused_with_the_reason(
    option: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((SystemExit, StartError)) as caught:  # noqa: PT012 - the one or the other
        opts = parsed(option)
        TraceConfig.of(opts.trace_config, opts.deprecated_trace)
    assert reason in capsys.readouterr().err + str(caught.value)


def test_a_model_repository_that_is_given_twice_is_one() -> None:
    assert parsed("--model-repository=m", "--model-store=m/", "--model-repository=n").model_repository == (Path("m"), Path("n"))


def test_the_model_repository_is_the_one_that_build_publishes_in_unless_another_is_given() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert Options.of(parser.parse_args([])).model_repository == (Path("models"),)
    assert Options.of(parser.parse_args(["--model-repository=m"])).model_repository == (Path("m"),)


def test_deprecated_trace_options_say_what_trace_config_says() -> None:
    opts = parsed(
        "--trace-file=/t.json", "--trace-level=max", "--trace-rate=7", "--trace-count", "-1", "--trace-log-frequency=3"
    )
    assert TraceConfig.of(opts.trace_config, opts.deprecated_trace) == TraceConfig.of(
        ["triton,file=/t.json", "level=TIMESTAMPS", "rate=7", "count=-1", "triton,log-frequency=3"]
    )


def test_trace_config_overrides_a_deprecated_option_whichever_comes_first() -> None:
    for order in (("--trace-rate=7", "--trace-config=rate=9"), ("--trace-config=rate=9", "--trace-rate=7")):
        opts = parsed(*order, "--trace-level=OFF", "--trace-config=level=TIMESTAMPS")
        settings = TraceConfig.of(opts.trace_config, opts.deprecated_trace).settings
        assert (settings.rate, settings.enabled) == (9, True)


def test_options_that_mean_nothing_here_are_named_at_start() -> None:
    texts = [text for _, text in advice(parsed("--rate-limit=off", "--trace-rate=5", "--backend-config", "python,a=b"))]
    assert "options that have no effect in this server: --backend-config, --rate-limit" in texts
    assert "--trace-rate is deprecated; use --trace-config=rate=5" in texts
    assert not list(advice(parsed()))


def test_two_servers_share_an_http_port_when_both_say_so(serve: Serve, tmp_path: Path) -> None:
    with serve(reuse_http_port=True) as first:
        port = int(first.http.rpartition(":")[2])
        with serve(reuse_http_port=True, http_port=port) as second:
            assert second.http == first.http
        with pytest.raises(Exception, match=rf"cannot listen on 127.0.0.1:{port}"), serve(http_port=port):
            pass


def test_the_help_has_every_option_in_words_that_stand_alone() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    for action in shown:
        assert action.help, action.option_strings
        odd = r"\bthe same\b(?! time| gRPC| HTTP)|(?<!there )\bis no \w|^its\b|\blooks\b"
        assert not re.search(odd, action.help), action.help


@pytest.mark.parametrize("option", ["--model-repository", "--model-link-roots"])
def test_a_directory_without_a_name_is_not_the_working_directory(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--model-repository=models", f"{option}="])
    assert ended.value.code == 2
    assert f"argument {option}" in (error := capsys.readouterr().err)
    assert "expected a directory" in error


def test_a_group_that_only_one_front_end_restricts_is_named() -> None:
    options = ("--http-restricted-api=model-repository,trace:admin=secret", "--grpc-restricted-protocol=trace:admin=secret")
    (text,) = [text for _, text in advice(parsed(*options))]
    assert "gRPC does NOT restrict model-repository" in text
    assert "--grpc-restricted-protocol" in text
    assert not list(advice(parsed(*options, "--allow-grpc=false")))


def test_an_ipv6_address_may_have_the_brackets_of_a_url() -> None:
    opts = parsed("--http-address=[::1]", "--grpc-address=[::1]", "--metrics-address=[::1]")
    assert (opts.http_address, opts.grpc_address, opts.metrics_address) == ("::1", "::1", "::1")


def test_a_store_that_is_no_directory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--model-repository=s3://bucket/models"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert (
        "'s3://bucket/models' is not a directory of this machine: mount the store, or copy its models to a directory" in error
    )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--metrics-port=8000",), "--http-port and --metrics-port are both 8000"),
        (("--grpc-port=8000",), "--grpc-port and --http-port are both 8000"),
        (("--metrics-port=8001", "--metrics-address=127.0.0.1"), "--grpc-port and --metrics-port are both 8001"),
        (("--http-port=9", "--metrics-port=9", "--http-address=::1"), "--http-port and --metrics-port are both 9"),
    ],
)
def test_two_services_on_one_port_are_refused(options: tuple[str, ...], names: str) -> None:
    with pytest.raises(StartError, match=f"^{names}, expected a port for each"):
        list(advice(parsed(*options)))


@pytest.mark.parametrize(
    "options",
    [
        ("--http-port=0", "--grpc-port=0", "--metrics-port=0"),
        ("--metrics-port=8000", "--allow-http=false"),
        ("--metrics-port=8000", "--http-address=127.0.0.1", "--metrics-address=127.0.0.2"),
        ("--metrics-port=8000", "--http-address=0.0.0.0", "--metrics-address=::1"),
    ],
)
def test_services_that_do_not_meet_may_have_one_port(options: tuple[str, ...]) -> None:
    assert not list(advice(parsed(*options)))


def test_a_server_says_how_many_models_it_serves_and_that_a_repository_is_empty(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write_model(tmp_path / "r", "a", "version_policy { all { } }", versions=(1, 2))
    write_model(tmp_path / "r", "b")
    with serve(repository=tmp_path / "r"):
        assert "2 models are served, 3 versions in all" in caplog.text
        assert "no model is in" not in caplog.text
    (tmp_path / "empty").mkdir()
    with serve(repository=tmp_path / "empty"):
        assert "0 models are served, 0 versions in all" in caplog.text
        assert f"no model is in {tmp_path}/empty, expected <repository>/<model>/<version>/<file of the model>" in caplog.text


def test_the_drain_counts_requests_only_if_there_are_some(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serve():
        pass
    assert "Waiting for in-flight requests to complete." in caplog.text
    assert "in-flight requests" not in caplog.text.replace("Waiting for in-flight requests to complete.", "")


def test_the_header_of_sequences_is_a_name_in_lower_case_and_none_by_default() -> None:
    assert parsed().sequence_header == ""
    assert parsed("--sequence-header=Hypersonic-Sequence").sequence_header == "hypersonic-sequence"


@pytest.mark.parametrize("name", ["a b", "a:b", "ä", "a\n"])
def test_what_cannot_be_the_name_of_a_header_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(f"--sequence-header={name}")
    assert "is not the name of a header, expected letters, digits and the signs - _ ." in capsys.readouterr().err
