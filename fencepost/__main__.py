"""The command's entry."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from fencepost import check_module_names
    from fencepost.errors import FencepostError

    try:
        check_module_names()
    except FencepostError as error:
        sys.stderr.write(f"fencepost: {error}\n")
        return error.exit_code
    from harness.cli import run

    return run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
