"""The command's entry."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Ctrl-C may also come while modules are still being imported."""
    from fencepost.errors import FencepostError

    try:
        from fencepost import check_module_names

        check_module_names()
        from harness.cli.main import run

        return run(sys.argv[1:] if argv is None else argv)
    except FencepostError as error:
        sys.stderr.write(f"fencepost: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("fencepost: interrupted before anything was started\n")
        return 255


if __name__ == "__main__":
    sys.exit(main())
