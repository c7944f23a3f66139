"""`make setup`: prepares a clone on a machine with only Python, so that it can run the main job.

Uses only the standard library. This file runs on any Python 3, so that an old version is refused in one line. The rest
is in `provision.py` (the order), `steps.py` (what is installed) and `fencepost/setup/` (how: logs, stamps, scratch
folders).
"""

import shutil
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - the interpreter is whatever the machine calls python3
        newer = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
        advice = "run" if newer else "install one and name it"
        sys.exit(
            "setup: {} is Python {}.{}, but fencepost needs 3.11 or newer; {}: make setup PYTHON={}".format(
                sys.executable, sys.version_info[0], sys.version_info[1], advice, (newer or ["python3.12"])[0]
            )
        )
    import provision

    sys.exit(provision.main())
