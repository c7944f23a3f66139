"""Stands for the `fencepost` command: says what the test wants, and writes down how it was called.

`FAKE` names a folder. `result.json` there is the result; `say` is printed to stderr, and `code` is the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

folder = Path(os.environ["FAKE"])
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[2:])
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps({"command": sys.argv[1], **options}) + "\n")
seed = int(options.get("seed", 4711))
run = Path(options["results"], f"run-{seed}-{os.getpid()}")
if (folder / "result.json").exists():
    result = json.loads((folder / "result.json").read_text())
    if "error" not in result:
        run.mkdir(parents=True)
        result |= {"seed": seed, "folder": str(run), "page": f"{run}/report.html"}
    Path(options["json"]).write_text(json.dumps(result))
if (folder / "say").exists():
    sys.stderr.write((folder / "say").read_text())
sys.exit(int((folder / "code").read_text()) if (folder / "code").exists() else 0)
