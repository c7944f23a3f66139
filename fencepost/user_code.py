"""Code of the user's that runs in the command's own process: lock classes, grids, scripts, extensions.

It may raise anything, try to end the process, and print. None of that is the command's: an error is the user's, in one
line, and what it prints goes to stderr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Final

from fencepost.boundary import Interrupted, say_error
from fencepost.errors import FencepostError, UsageError

_MOST_LINES: Final = 20


@contextmanager
def user_code(whose: str, failing: str) -> Iterator[None]:
    """While this is entered, code of the user's runs. `whose`: what it is called before what it prints.

    Raises UsageError for whatever it raises: `failing`, and what that was.
    """
    printed = StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    except (FencepostError, Interrupted):
        raise
    except BaseException as error:
        raise UsageError(f"{failing}: {in_words(error)}") from error
    finally:
        _show(whose, printed.getvalue())


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
