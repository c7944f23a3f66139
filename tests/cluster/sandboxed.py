"""A toy program in a sandbox of its own, and what it says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from cluster.polling import is_readable
from cluster.sandbox import Refusal, launch

_ROOT = Path(__file__).parents[2]


def said_by(toy: str, **environment: str) -> dict[str, Any]:
    """What this toy says, as JSON on the descriptor that it is given second."""
    errors = os.memfd_create("errors")
    environment |= {"PYTHONPATH": str(_ROOT)}
    sandbox = launch([sys.executable, str(_ROOT / f"tests/toys/{toy}.py")], environment, errors)
    assert not isinstance(sandbox, Refusal), sandbox
    text = b""
    while is_readable(sandbox.messages, 60) and (data := os.read(sandbox.messages, 1 << 16)):
        text += data
    os.close(sandbox.orders)
    sandbox.launcher.wait()
    os.close(sandbox.messages)
    assert text, os.pread(errors, 1 << 16, 0).decode()
    os.close(errors)
    said: dict[str, Any] = json.loads(text)
    return said
