# SPDX-License-Identifier: Apache-2.0
"""Termination signals reach the main thread, whichever thread the kernel gives them to."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import signal, threading, time
from hypersonic.server.signals import termination_signals

def kill():
    time.sleep(0.5)  # the main thread waits by then
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(60)

with termination_signals() as signals:
    threading.Thread(target=kill, daemon=True).start()
    print(signals.wait())
"""


def test_a_signal_that_another_thread_gets_ends_the_main_threads_waiting() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"{int(signal.SIGTERM)}\n"), done.stderr
