"""The command's entry."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Without arguments this is the program: it takes its arguments from
    the shell, and ends the process."""
    if argv is None:
        from fencepost.interpreter_start import begin_undisturbed, keep_no_torn_bytecode, search_users_folders_last

        # Looking for garbage at Python's own pace, among what is imported and stays, is a tenth of a short command.
        gc.set_threshold(100_000, 20, 20)
        begin_undisturbed()
        search_users_folders_last()
        keep_no_torn_bytecode()
    from fencepost.boundary import INTERRUPTED, exit_code_of, leave, protect_process

    if argv is not None:
        return exit_code_of(lambda: _run(argv))
    code = INTERRUPTED
    try:
        protect_process()
        code = exit_code_of(lambda: _run(sys.argv[1:]))
    finally:  # a second Ctrl-C may have come
        leave(code)


def _run(argv: Sequence[str]) -> int:
    from fencepost import check_module_names
    from fencepost.memory import check_address_space, check_processes

    check_module_names()
    _check_surroundings()
    check_address_space()
    check_processes()
    from harness.cli.main import run

    return run(argv)


def _check_surroundings() -> None:
    import os

    from fencepost.errors import BrokenEnvironmentError, UsageError

    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        raise UsageError("the current folder was deleted; change to one that exists (cd)") from None
    if not os.path.exists("/proc/self/stat"):  # noqa: PTH110
        raise BrokenEnvironmentError("/proc is not mounted here; mount it: mount -t proc proc /proc")


if __name__ == "__main__":
    sys.exit(main())
