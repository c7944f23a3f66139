"""The command's entry."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Without arguments this is the program: it takes its arguments from
    the shell, and ends the process."""
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
    from fencepost.memory import check_address_space

    check_module_names()
    check_address_space()
    from harness.cli.main import run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
