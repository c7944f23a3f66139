"""The edge of the command: whatever happens inside, the caller sees a documented exit code and one line of error.

Exit code 1 is a verdict, and so is 0; nothing that goes wrong may look like one. An unexpected exception is
255, in one line that names a file with its traceback. So is `SystemExit`, which only a module of the user's can have
raised, and a `KeyboardInterrupt` that was not Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import Final, NoReturn, TextIO

from fencepost import ascii_forms
from fencepost.errors import FencepostError
from fencepost.stdout import UnreadError, guard_stdout
from fencepost.text import printable

FAILED: Final = FencepostError.exit_code
INTERRUPTED: Final = 128 + signal.SIGINT
"""Ctrl-C where there is no run that could be judged, as shells show it."""
UNREAD: Final = 128 + signal.SIGPIPE
"""The reader of the output has gone (`fencepost list | head`), as shells show it."""
_LONGEST_LINE: Final = 4_000


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed; any other KeyboardInterrupt was raised by other code."""


def exit_code_of(command: Callable[[], int]) -> int:
    """Call the command; its exit code, or that of the exception that ended it, which is told in one line on stderr."""
    code = _ending(command)
    flushed = _ending(_flush)
    return flushed or code


def _ending(call: Callable[[], int]) -> int:
    try:
        return call()
    except FencepostError as error:
        say_error(str(error))
        return error.exit_code
    except UnreadError:
        return UNREAD
    except BaseException as error:
        if _is_interrupted(error):
            say_error("interrupted")
            return INTERRUPTED
        say_error(unexpected(error))
        return FAILED


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C ended it. Code that it came into may wrap it: Python 3.11 does so where a class is being made, in
    the middle of an import."""
    while error is not None and not isinstance(error, Interrupted):
        error = error.__cause__
    return error is not None


def say_error(text: str) -> None:
    """One line on stderr, without anything that a terminal would obey."""
    line = printable(text)
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
    with suppress(OSError, ValueError, AttributeError):  # a reader is not required
        sys.stderr.write(f"fencepost: {line}\n")
        sys.stderr.flush()


def say(text: str) -> None:
    """Write text of ours to stdout. Raises what `fencepost.stdout` raises."""
    stdout: TextIO | None = sys.stdout
    if stdout is not None:  # closed by the caller
        stdout.write(text)


def say_bytes(pieces: Iterable[bytes]) -> None:
    """Write bytes of ours to stdout. Raises what `fencepost.stdout` raises."""
    stdout: TextIO | None = sys.stdout
    if stdout is not None:  # closed by the caller
        for piece in pieces:
            stdout.buffer.write(piece)
        stdout.buffer.flush()


def unexpected(error: BaseException) -> str:
    """An unexpected exception, in words, with the path of a file that has its traceback."""
    if isinstance(error, MemoryError):
        what = "not enough memory, or too small a limit (ulimit -v)"
    elif isinstance(error, EOFError) and "marshal" in _words_of(error):
        what = "a compiled module is damaged, as a full disk leaves it; delete the folders __pycache__ of fencepost"
    elif isinstance(error, SystemExit):
        what = f"a module that it loaded tried to end the process (sys.exit, {error.code!r})"
    else:
        what = f"{type(error).__name__}: {_words_of(error)}"
    return f"failed unexpectedly: {what}; {_keep_traceback(error)}"


def protect_process() -> None:
    """Prepare the process of the command: what others do in it does not end it or write tracebacks."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed by the caller; else the next file that is opened would be stdout
            os.open(os.devnull, os.O_RDWR)
    guard_stdout()
    ascii_forms.register()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=ascii_forms.encoding(), errors=ascii_forms.ERRORS)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    _keep_alive()
    threading.excepthook = lambda failed: _tell_of_thread(failed.exc_type, failed.exc_value)
    sys.unraisablehook = lambda ignored: None


def leave(code: int) -> NoReturn:
    """End the process with this exit code. Neither threads nor exit handlers of modules that it loaded have a say."""
    _leave(code)


def _keep_alive() -> None:
    """Let `os._exit` raise SystemExit in this process; children that it forks end as ever."""
    process = os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            _leave(status)
        raise SystemExit(status)

    os._exit = refuse


_leave: Callable[[int], NoReturn] = os._exit


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted


def _tell_of_thread(kind: type[BaseException], error: BaseException | None) -> None:
    if kind is not SystemExit and error is not None:
        say_error(f"a thread {unexpected(error)}")


def _flush() -> int:
    stdout: TextIO | None = sys.stdout
    if stdout is not None and not stdout.closed:
        stdout.flush()
    return 0


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a stranger's __str__
        return "(it cannot be shown)"


def _keep_traceback(error: BaseException) -> str:
    """Write it to a file; where that is, or why there is none."""
    import tempfile
    import traceback

    try:
        descriptor, path = tempfile.mkstemp(prefix="fencepost-traceback-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except Exception as failure:
        return f"its traceback cannot be written ({_words_of(failure)})"
    return f"its traceback is in {path}"
