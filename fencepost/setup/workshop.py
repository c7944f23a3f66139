"""How set-up works: logged commands, temporary scratch folders, stamps for finished steps, one set-up at a time.

Everything is first built in `tmp` below the tools folder and renamed when it is complete; only then is its stamp
written. So an interrupted set-up leaves either the old version or the new one, and can simply be run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.errors import BrokenEnvironmentError

_LEADS_ASTRAY: Final = re.compile(
    r"(PIP|UV|PYTHON|VIRTUALENV|CONDA|CARGO_BUILD)_|PYTHON|VIRTUAL_ENV|NODE_OPTIONS|GO(OS|ARCH|AMD64|ARM64|EXPERIMENT)$"
)
"""The user's own settings, by their names. Settings that tell the way to package indexes are handed on by name
(`fencepost.setup.indexes`)."""


class SetupError(BrokenEnvironmentError):
    """What failed, in one line that names the log."""


class InterruptedSetupError(SetupError):
    """The command was ended because set-up was interrupted."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to install.

    `brings`: what will be downloaded and run, for the user to read beforehand. `inputs`: texts that determine the
    result; if one changes, the step runs again. `products`: programs that must exist and be executable for the step to
    count as done. `make` installs it and returns what was found or built, for the one line that the user sees.
    """

    name: str
    brings: str
    inputs: tuple[str, ...]
    products: tuple[Path, ...]
    make: Callable[[Workshop], str]

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.inputs).encode()).hexdigest()


@dataclass(slots=True)
class Workshop:
    """A folder for tools. Several threads may use it, one step each."""

    tools: Path
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False
    apt: threading.Lock = field(default_factory=threading.Lock)
    """Held around apt-get, which allows one caller at a time."""
    uv: threading.Lock = field(default_factory=threading.Lock)
    """Held while uv is looked for or fetched."""
    toolchains: threading.Lock = field(default_factory=threading.Lock)
    """Held while a toolchain is brought that several steps may want."""

    @property
    def bin(self) -> Path:
        return self.tools / "bin"

    # -- finished steps ------------------------------------------------------------------------------------------

    def is_done(self, step: Step) -> bool:
        """Whether the step's stamp matches its inputs and its products still exist."""
        try:
            stamped = self._stamp(step).read_text()
        except OSError:
            return False
        return stamped == step.digest and all(os.access(product, os.X_OK) for product in step.products)

    def perform(self, step: Step) -> str:
        """Run the step and write its stamp. If it raises SetupError, there is no stamp."""
        self._stamp(step).unlink(missing_ok=True)
        self._log(step.name).unlink(missing_ok=True)
        try:
            found = step.make(self)
        except OSError as error:
            raise SetupError(f"{step.name}: {error}") from error
        missing = [str(product) for product in step.products if not os.access(product, os.X_OK)]
        if missing:
            raise SetupError(f"{step.name}: {', '.join(missing)} is missing or not executable; {self._see(step.name)}")
        self._stamp(step).parent.mkdir(parents=True, exist_ok=True)
        self._stamp(step).write_text(step.digest)
        return found

    def _stamp(self, step: Step) -> Path:
        return self.tools / "stamps" / step.name

    # -- commands ------------------------------------------------------------------------------------------------

    def run(
        self, step: str, *command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> str:
        """Run a command to its end and return its output, which is also logged. Raises SetupError unless it exits with
        0.

        The command runs in its own session, so that Ctrl-C reaches only set-up, which then ends the whole session.
        """
        log = self._log(step)
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [str(word) for word in command]
        with log.open("a") as record:
            record.write(f"$ {' '.join(words)}\n")
        with self._guard:
            if self._stopped:
                raise InterruptedSetupError(f"{step}: not started")
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    env={**surrounding(), **(env or {})},
                    cwd=cwd or self.tools,
                    start_new_session=True,
                )
            except OSError as error:
                raise SetupError(f"{step}: cannot run {words[0]}: {error.strerror}") from error
            self._running.add(process)
        lines = []
        try:
            assert process.stdout is not None
            with process.stdout, log.open("a") as record:
                for line in process.stdout:
                    lines.append(line)
                    record.write(line)
                    record.flush()
            status = process.wait()
        finally:
            with self._guard:
                self._running.discard(process)
        if self._stopped:
            raise InterruptedSetupError(f"{step}: interrupted")
        if status != 0:
            raise SetupError(f"{step}: {_complaint(lines) or f'{words[0]} exited with {status}'}; {self._see(step)}")
        return "".join(lines).strip()

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """End every running command, and start no more."""
        with self._guard:
            self._stopped = True
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _log(self, step: str) -> Path:
        return self.tools / "log" / f"{step}.log"

    def _see(self, step: str) -> str:
        return f"the log is {short(self._log(step))}"

    # -- places --------------------------------------------------------------------------------------------------

    @contextmanager
    def scratch(self, step: str) -> Iterator[Path]:
        """A new temporary folder on the same file system as the results."""
        (self.tools / "tmp").mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f"{step}.", dir=self.tools / "tmp"))
        try:
            yield place
        finally:
            remove(place)

    @contextmanager
    def alone(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Run only one set-up of this folder at a time; calls `waiting` once if another one is running. Raises
        SetupError if this user cannot write there."""
        try:
            self.tools.mkdir(parents=True, exist_ok=True)
            opened = (self.tools / "lock").open("w")
        except OSError as error:
            raise SetupError(
                f"{self.tools} cannot be written ({error.strerror}), and not everything is installed there; have its "
                "owner run the set-up, or use a clone of your own"
            ) from error
        with opened as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                remove(self.tools / "tmp")  # left by a set-up that was killed
                yield
            finally:
                remove(self.tools / "tmp")


def surrounding() -> dict[str, str]:
    """The environment without what would lead an installer elsewhere, or another Python to other modules."""
    return {name: value for name, value in os.environ.items() if not _LEADS_ASTRAY.match(name)}


def short(path: Path) -> Path:
    """The path, relative to the current folder if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def replace(new: Path, target: Path) -> None:
    """Move a result from its scratch folder to its place; a folder that was there moves into the same scratch
    folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        target.rename(new.with_name(f"{new.name}.old"))
    new.replace(target)


def make_shared(tree: Path) -> None:
    """Let every user of the machine read it and no server change it, so that servers share its files
    (`cluster.server_tree`)."""
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o555 if path.parent.name == "bin" else 0o444)


def remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


_OF_NPM: Final = re.compile(r"npm (?:error|ERR!) (?!code|errno|syscall)(.+)")


def _complaint(lines: list[str]) -> str:
    """The line of a failed command's output that gives the reason: the last one marked as an error, with the innermost
    cause that follows it, else the last. npm marks every line, says the reason first, and its own usage after it."""
    spoken = [line.strip() for line in lines if line.strip()]
    of_npm = (_OF_NPM.match(line) for line in spoken)
    if (reason := next(filter(None, of_npm), None)) is not None:
        return reason[1]
    errors = [at for at, line in enumerate(spoken) if line.lower().startswith(("error", "e:", "fatal"))]
    if not errors:
        return (spoken or [""])[-1]
    causes = [line.removeprefix("cause: ") for line in spoken[errors[-1] :] if line.startswith("cause: ")]
    return ": ".join((spoken[errors[-1]], *causes[-1:]))
