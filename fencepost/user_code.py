"""Code of the user's that runs in the command's own process: lock classes, grids, scripts, extensions.

It may raise anything, try to end the process, and print. None of that is the command's: an error is the user's, in one
line, and what it prints goes to stderr, also what programs print that it starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Final, TextIO

from fencepost.boundary import Interrupted, say_error
from fencepost.errors import FencepostError, UsageError

_MOST_LINES: Final = 20


@contextmanager
def user_code(whose: str, failing: str) -> Iterator[None]:
    """While this is entered, code of the user's runs. `whose`: what it is called before what it prints.

    Raises UsageError for whatever it raises: `failing`, and what that was.
    """
    # In memory; its own descriptor, because a module may keep the file that it finds as stdout.
    printed = os.fdopen(os.memfd_create("fencepost-printed"), "w", buffering=1, errors="backslashreplace")
    try:
        with _diverted(printed), redirect_stdout(printed), redirect_stderr(printed):
            yield
    except (FencepostError, Interrupted):
        raise
    except BaseException as error:
        raise UsageError(f"{failing}: {in_words(error)}") from error
    finally:
        _show(whose, os.pread(printed.fileno(), os.fstat(printed.fileno()).st_size, 0).decode(errors="replace"))


@contextmanager
def _diverted(to: TextIO) -> Iterator[None]:
    """Meanwhile the process's stdout and stderr are that file, below Python too: for `os.write`, libraries in C, and
    programs that are started."""
    with ExitStack() as stack:
        for standard, stream in ((1, sys.stdout), (2, sys.stderr)):
            if stream is not None:
                stream.flush()
            before = os.dup(standard)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, standard)
            os.dup2(to.fileno(), standard)
        yield


def in_words(error: BaseException) -> str:
    """An exception of the user's, in one line."""
    if isinstance(error, SystemExit):
        return f"it tried to end the process (sys.exit, {error.code!r})"
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = "(its text cannot be shown)"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _show(whose: str, printed: str) -> None:
    lines = printed.splitlines()
    for line in lines[:_MOST_LINES]:
        say_error(f"{whose} printed: {line}")
    if len(lines) > _MOST_LINES:
        say_error(f"{whose} printed {len(lines) - _MOST_LINES} more lines")
