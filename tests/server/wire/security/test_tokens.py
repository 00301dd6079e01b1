# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens on both front ends: who gets in, who is told what, and when a changed file counts."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import AuthorisationError, StartError
from hypersonic.server.options import Options
from hypersonic.server.wire.security import watched
from hypersonic.server.wire.security.groups import RPCS, Group
from hypersonic.server.wire.security.policies import policies
from hypersonic.server.wire.security.policy import Policy, authorise
from hypersonic.server.wire.security.tokens import BearerTokens, parse_tokens
from tests.server.conftest import Serve, tensor
from tests.server.wire.security.conftest import call, fetch

TOKEN, OTHER = "a-token-of-the-site-1", "a-token-of-the-site-2"
BEARER = (("authorization", f"Bearer {TOKEN}"),)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who may call\n\n{OTHER}\n  {TOKEN}  \n")
    return path


def test_tritonclient_calls_with_a_token(serve: Serve, token_file: Path) -> None:
    with serve(auth_token_file=str(token_file)) as running, triton.InferenceServerClient(running.grpc) as client:
        x = np.ones((2, 3), np.float32)
        for headers in (dict(BEARER), {"authorization": f"bearer {OTHER}"}):
            answer = client.infer("m", [tensor(x)], headers=headers)
            np.testing.assert_array_equal(answer.as_numpy("y"), x.sum(axis=1, keepdims=True))
        with pytest.raises(triton.InferenceServerException, match="bearer token is missing"):
            client.infer("m", [tensor(x)])


def test_only_exempt_groups_are_open_without_a_token(serve: Serve, token_file: Path) -> None:
    with serve(auth_token_file=str(token_file)) as running, grpc.insecure_channel(running.grpc) as channel:
        for method, group in RPCS.items():
            if group is Group.HEALTH:
                assert call(channel, method)[0] != "UNAUTHENTICATED", method
            else:
                assert call(channel, method) == ("UNAUTHENTICATED", "bearer token is missing"), method
                wrong = (("authorization", "Bearer a-token-of-nobody"),)
                assert call(channel, method, metadata=wrong) == ("UNAUTHENTICATED", "bearer token is not known"), method
                assert call(channel, method, metadata=BEARER)[0] != "UNAUTHENTICATED", method


def test_nothing_is_exempt_where_the_operator_says_so(serve: Serve, token_file: Path) -> None:
    with serve(auth_token_file=str(token_file), auth_exempt=()) as running, grpc.insecure_channel(running.grpc) as channel:
        assert call(channel, "/inference.GRPCInferenceService/ServerLive")[0] == "UNAUTHENTICATED"
        assert call(channel, "/grpc.health.v1.Health/Check")[0] == "UNAUTHENTICATED"
        assert call(channel, "/grpc.health.v1.Health/Watch")[0] == "UNAUTHENTICATED"
        assert call(channel, "/inference.GRPCInferenceService/ServerLive", metadata=BEARER)[0] == "OK"
        assert fetch(running.metrics)[0] == 401
        assert fetch(running.metrics, headers=dict(BEARER))[0] == 200


def test_http_challenges_as_rfc_6750_says(serve: Serve, token_file: Path) -> None:
    with serve(auth_token_file=str(token_file)) as running:
        for path in ("/v2", "/v2/models/m/infer", "/nothing", "/v2/", "/V2", "/v2//health/live"):
            status, body, headers = fetch(running.http + path)
            assert (status, body) == (401, {"error": "bearer token is missing"}), path
            assert headers["www-authenticate"] == "Bearer"
        status, body, headers = fetch(f"{running.http}/v2", headers={"Authorization": "Bearer a-token-of-nobody"})
        assert (status, headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
        assert fetch(f"{running.http}/v2", headers=dict(BEARER))[0] == 200
        assert fetch(f"{running.http}/v2/health/ready")[0] == 200
        assert fetch(running.metrics)[0] == 200
        assert fetch(f"{running.http}/nothing", headers=dict(BEARER))[:2] == (404, {"error": "Not Found"})


@pytest.mark.parametrize(
    "value",
    [
        *("", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer{TOKEN}"),
        *(f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer " + "x" * 20_000),
    ],
)
def test_a_header_of_another_form_opens_nothing(token_file: Path, value: str) -> None:
    policy = Policy(credentials=(BearerTokens(token_file),))
    with pytest.raises(AuthorisationError):
        authorise(policy, Group.INFERENCE, [("authorization", value)])


def test_two_authorization_headers_open_nothing(token_file: Path) -> None:
    policy = Policy(credentials=(BearerTokens(token_file),))
    with pytest.raises(AuthorisationError, match="more than one authorization header"):
        authorise(policy, Group.INFERENCE, [*BEARER, *BEARER])


def test_what_is_in_no_group_is_exempt_from_nothing(token_file: Path) -> None:
    policy = Policy(credentials=(BearerTokens(token_file),), exempt=frozenset(Group))
    assert policy.guards(None)
    with pytest.raises(AuthorisationError):
        authorise(policy, None, [])


def test_a_refused_request_is_never_read(serve: Serve, token_file: Path) -> None:
    """64 MiB from a caller without a token: the refusal comes while they are still on their way."""
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[bytes(64 << 20)]).SerializeToString()
    with serve(auth_token_file=str(token_file)) as running, grpc.insecure_channel(running.grpc) as channel:
        assert call(channel, "/inference.GRPCInferenceService/ModelInfer", request)[0] == "UNAUTHENTICATED"
        assert running.server.service.admission.requests == 0


def test_a_changed_file_counts_without_a_restart(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens = BearerTokens(token_file)
    tokens.accept(TOKEN)
    token_file.write_text("a-token-of-the-site-3\n")
    tokens.accept("a-token-of-the-site-3")
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)
    token_file.write_text("# everybody out\n")
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept("a-token-of-the-site-3")


def test_a_file_that_became_unreadable_keeps_what_it_said(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    tokens = BearerTokens(token_file)
    token_file.write_text("short\n")
    tokens.accept(TOKEN)
    assert f"{token_file} cannot be used: line 1 is not a token" in caplog.text
    assert caplog.text.count(str(token_file)) == 1
    token_file.unlink()
    tokens.accept(TOKEN)
    token_file.write_text(f"{OTHER}\n")
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_file_whose_read_failed_is_read_again_until_that_succeeds(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens, read, failures = BearerTokens(token_file), watched._bounded, iter(range(3))

    def failing(path: Path) -> bytes:
        if next(failures, None) is not None:
            raise OSError(number, os.strerror(number), str(path))
        return read(path)

    token_file.write_text(f"{OTHER}\n")
    monkeypatch.setattr(watched, "_bounded", failing)
    for _ in range(3):
        tokens.accept(TOKEN)  # what it said before
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)
    tokens.accept(OTHER)


def test_a_fifo_in_the_files_place_keeps_nobody_waiting(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens = BearerTokens(token_file)
    token_file.unlink()
    os.mkfifo(token_file)
    tokens.accept(TOKEN)  # what it said before
    token_file.unlink()
    token_file.write_text(f"{OTHER}\n")
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)


def test_a_change_counts_that_shows_neither_in_the_files_size_nor_in_its_time(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `rsync --inplace --times` makes it, or two writes within one tick of the file system's clock."""
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens, before = BearerTokens(token_file), token_file.stat()
    token_file.write_text(token_file.read_text().replace(TOKEN, OTHER))
    os.utime(token_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert token_file.stat().st_size == before.st_size
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)


def test_a_failure_that_lasts_is_reported_once_a_minute_and_so_is_its_end(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    tokens, text = BearerTokens(token_file), token_file.read_text()
    token_file.unlink()
    for _ in range(5):
        tokens.accept(TOKEN)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    monkeypatch.setattr(watched, "_REMIND_S", 0.0)
    tokens.accept(TOKEN)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert f"{token_file} cannot be used: No such file or directory; its previous contents stay" in caplog.records[-1].message
    assert "it is read again every second" in caplog.records[-1].message
    token_file.write_text(text)
    tokens.accept(TOKEN)
    tokens.accept(TOKEN)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    assert "can be read again" in caplog.records[-1].message


def test_a_wrong_line_of_a_changed_file_keeps_no_withdrawn_token(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    tokens = BearerTokens(token_file)
    token_file.write_text(f"short\n{OTHER}\n")
    tokens.accept(OTHER)
    with pytest.raises(AuthorisationError, match="not known"):
        tokens.accept(TOKEN)
    assert [record.message.partition(": ")[2] for record in caplog.records if record.levelname == "ERROR"] == [
        "line 1 is not a token, expected 16 ASCII characters or more without spaces; it is left out"
    ]
    with pytest.raises(StartError, match="line 1 is not a token"):
        BearerTokens(token_file)


@pytest.mark.parametrize("text", [b"short", b"a token of several words here", "a-token-with-an-umlaut-\u00fc".encode()])
def test_what_is_no_token_is_said_by_its_line_and_not_by_its_text(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^line 2 is not a token, expected 16 ASCII characters") as error:
        parse_tokens(b"# first\n" + text)
    assert text.decode() not in str(error.value)


def test_a_file_without_tokens_is_said_at_start(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# none yet\n")
    with pytest.raises(StartError, match="has no token"):
        BearerTokens(path)
    with pytest.raises(StartError, match=r"cannot read .*: No such file or directory"):
        BearerTokens(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"auth_exempt": ("helth",)}, "--auth-exempt: unknown protocol group 'helth', expected some of health, metadata"),
        ({"auth_issuer": "https://idp"}, "they need --auth-jwks-file"),
        ({"auth_audience": ("x",)}, "they need --auth-jwks-file"),
    ],
)
def test_options_that_contradict_each_other_are_said_at_start(options: dict[str, Any], text: str) -> None:
    with pytest.raises(StartError, match=text):
        policies(Options((Path(),), **options))
