# SPDX-License-Identifier: Apache-2.0
"""From a finished run to framed answers: straight from the slot, or from the parts of a request that needed several runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Slot
from hypersonic.server.core.inference.pending import AnsweredRows, PendingRequest, Share
from hypersonic.server.core.scheduling.batch import Batcher
from hypersonic.server.errors import BackendError, ServerError
from hypersonic.server.statistics.times import RunTimes, join_times

_LOG = logging.getLogger(__name__)


def frame_answer(slot: Slot, index: int, share: Share, times: RunTimes, batcher: Batcher) -> bool:
    """Frame the run's answer to the share; return whether the request is complete now. Raises nothing."""
    pending = share.pending
    try:
        answer = slot.answer(index)
        batcher.keep_state(share, answer)
        if not share.whole:
            answered = _copy(answer)
            pending.parts.append(AnsweredRows(share.first_row, answered, times.answered_at(time.monotonic_ns())))
    except Exception as error:  # noqa: BLE001 - an answer that cannot be read must not take the instance out of service
        pending.error = _server_error(error)
        batcher.end_run(share)
        return False
    if not batcher.end_run(share):
        return False
    _complete(pending, answer, share, times)
    return True


def _complete(pending: PendingRequest, answer: Answer, share: Share, times: RunTimes) -> None:
    try:
        if share.whole:
            pending.prepare(answer, times)
        else:
            pending.parts.sort(key=lambda part: part.first_row)
            pending.prepare(
                _join_answers([part.answer for part in pending.parts]), join_times([part.times for part in pending.parts])
            )
    except Exception as error:  # noqa: BLE001 - as above
        pending.error = _server_error(error)


def _server_error(error: Exception) -> ServerError:
    if isinstance(error, ServerError):
        return error
    _LOG.exception("an answer could not be framed")
    return BackendError(f"the answer could not be framed: {type(error).__name__}")


def _copy(answer: Answer) -> Answer:
    """Copy the answer out of the slot, which is used again before the request is complete."""
    return answer._replace(outputs=tuple(o._replace(chunks=[bytes(chunk) for chunk in o.chunks]) for o in answer.outputs))


def _join_answers(answers: Sequence[Answer]) -> Answer:
    """Join the answers to consecutive rows into one."""
    outputs = zip(*(answer.outputs for answer in answers), strict=True)
    return Answer(tuple(_join_outputs(parts) for parts in outputs), answers[0].parameters)


def _join_outputs(parts: Sequence[Output]) -> Output:
    first = parts[0]
    return first._replace(
        shape=(sum(part.shape[0] for part in parts), *first.shape[1:]),
        chunks=[chunk for part in parts for chunk in part.chunks],
        size_bytes=sum(part.size_bytes for part in parts),
    )
