# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a process that has a model loaded (converting.py), so the framework is loaded once for many candidates."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.bounded import tool
from hypersonic.hls.child import ended, python_argv
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.hgq import environment_of
from hypersonic.hls.frontend.survey import Survey, survey_from_json
from hypersonic.hls.project import HlsProject
from hypersonic.hls.tune.verdict import Verdict, edit_from_json, verdict_from_json

#: the program, which this process does not import, and the line that it prints when an answer is ready
_PROGRAM, _DONE = "hypersonic.hls.tune.converting", "hypersonic: answered"


class Candidates:
    """A process that has a model loaded. It starts with the first request; any thread may ask.

    Args:
        model: the model file. Every method raises ConversionError if the conversion refuses a request or the process ends, and
            ToolMemoryError if the process needs more memory than its limit.
    """

    def __init__(self, model: Path) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._scratch = tempfile.TemporaryDirectory()
        self._count = 0

    def __enter__(self) -> Candidates:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._process is not None and error is None:
                with suppress(BrokenPipeError):
                    self._process.communicate()
            self._stack.__exit__(kind, error, trace)
        finally:
            self._scratch.cleanup()

    def inputs(self) -> list[tuple[str, tuple[int, ...], bool]]:
        """Return the name and the shape of each input, and whether the model's file has channels first."""
        return [(name, tuple(shape), first) for name, shape, first in self._ask(do="inputs")]

    def survey(self, rows: Path | None) -> Survey:
        """Survey the model with the rows of a file, or without any. Raises OSError for a file that cannot be opened."""
        if rows:
            rows.open("rb").close()
        return survey_from_json(self._ask(do="survey", rows=str(rows or "")))

    def answers(self, rows: Path) -> tuple[NDArray[np.float64], ...]:
        """Return the trained model's answers (rows, size) for each output.

        Args:
            rows: a .npz with the inputs as "0", "1", ...
        """
        place = Path(self._scratch.name) / "answers.npz"
        count = self._ask(do="answers", rows=str(rows), answers=str(place))["outputs"]
        with np.load(place) as stored:
            return tuple(stored[str(number)] for number in range(count))

    def convert(self, described: Path, directory: Path, card: str) -> HlsProject:
        """Write the HLS project and the core of a description into `directory`.

        Args:
            described: a model file of any content with its YAML beside it.
            card: as for convert_model; for rf cores only.
        """
        self._ask(do="convert", described=str(described), directory=str(directory), card=card)
        return HlsProject.load(directory)

    def judge(self, described: Path, directory: Path, core: str, limit: float) -> Verdict:
        """Convert and judge a description, in `directory`, as a build does.

        Args:
            described: as for convert, with the gate's file of rows as a build would find it.
            core: a CoreKind, or "" for the description's.
            limit: the loss above which the verdict names the layer in which the difference begins.
        """
        answer = self._ask(do="judge", described=str(described), directory=str(directory), core=core, limit=str(limit))
        return verdict_from_json(answer)

    def _ask(self, **request: str) -> Any:
        with self._lock:
            process = self._process = self._process or self._start()
            self._count += 1
            reply = Path(self._scratch.name) / f"reply{self._count}.json"
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps({**request, "reply": str(reply)}) + "\n")
                process.stdin.flush()
            log = []
            for line in process.stdout:
                if line.startswith(_DONE):
                    break
                log.append(line)
            else:
                last = ended(process.wait(), log).last
                self._process = None  # the next request starts another one
                self._stack.close()  # raises if it needed more memory than its limit
                raise ConversionError(f"the conversions of {self._model} ended with {process.returncode}: {last}")
            answer = json.loads(reply.read_text())
        if "refused" in answer:
            raise ConversionError(answer["refused"], tuple(map(edit_from_json, answer["edits"])))
        return answer["answer"]

    def _start(self) -> subprocess.Popen[str]:
        argv = python_argv("-m", _PROGRAM, str(self._model))
        options = {**tool.PIPED, "stdin": subprocess.PIPE}
        started = tool.start(argv, f"the process that converts {self._model}", env=environment_of(self._model), **options)
        return self._stack.enter_context(started).process
