"""The reaper: a small process that outlives the harness and cleans up after it, like Ryuk of Testcontainers.

It learns from the kernel when the harness dies, however that happens: it reads from a pipe of which only the harness
has the other end (close-on-exec, so no child inherits it). A byte means that the harness has cleaned up itself; the end
of the file without one means that it died, and the reaper then removes everything of that run
(`cluster.sweep.sweep_one`).

It waits as a bare interpreter that has imported nothing, which takes 10 ms to start and nothing afterwards; only when
there is something to do does it load the rest, and nothing that takes long to load: it has seconds, also on a busy
machine. It is not part of the run: it does not carry the run's mark, so that
neither it nor a sweep ends it, it has its own session, and it ignores the signals by which users and systems ask
the harness to stop.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from cluster.run_processes import RUN_VARIABLE
from cluster.site import Site
from fencepost.interpreter_start import running

_WAIT: Final = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if not os.read(0, 1):
    os.execv(sys.argv[1], sys.argv[1:])
"""
_GONE_WITHIN_S: Final = 5.0
SITE_VARIABLE: Final = "FENCEPOST_SITE"
"""How a reaper is told the site of its run (`Site.encode`)."""


class Reaper:
    """The harness's side: a started reaper."""

    def __init__(self, process: subprocess.Popen[bytes], done: int) -> None:
        self._process = process
        self._done: int | None = done

    @classmethod
    def start(cls, folder: Path, site: Site | None = None) -> Self:
        """Start a reaper for the run with this state folder, which has its servers there or has none. Returns
        immediately."""
        watched, done = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
        environment[SITE_VARIABLE] = "" if site is None else site.encode()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WAIT, *running("cluster.reap", str(folder.absolute()))],
                cwd="/",
                stdin=watched,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(watched)
        return cls(process, done)

    def release(self) -> None:
        """Have it clean up now, as after the death of the harness, and do not wait for it."""
        done, self._done = self._done, None
        if done is not None:
            os.close(done)

    def dismiss(self) -> None:
        """Tell it that everything was cleaned up, and wait for its end. A second call does nothing."""
        done, self._done = self._done, None
        if done is None:
            return
        with suppress(BrokenPipeError):  # it was killed
            os.write(done, b"\n")
        os.close(done)
        try:
            self._process.wait(_GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
