"""`make setup`: turn a clone on a machine with nothing but Python into one that can run the main job.

Standard library only. This file is written for any Python 3, so that an old one is refused in one line; all the rest
is in `provision.py` (the order), `steps.py` (what is brought) and `workshop.py` (how: logs, stamps, scratch folders).
"""

import shutil
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - the interpreter is whatever the machine calls python3
        newer = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
        advice = "run" if newer else "install one and name it"
        sys.exit(
            "setup: {} is Python {}.{}, and fencepost needs 3.11 or newer; {}: make setup PYTHON={}".format(
                sys.executable, sys.version_info[0], sys.version_info[1], advice, (newer or ["python3.12"])[0]
            )
        )
    import provision

    sys.exit(provision.main())
