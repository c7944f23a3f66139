"""Operations for Porcupine, a linearizability checker in Go: a JSON object a line, one for each key.

Porcupine has no file format of its own. The objects are the ones that the Go program in tests/peers/porcupine reads; it
is short, and a model of one's own reads them as easily. Times are nanoseconds since the start of the load, *doubled*,
and the end of a section is half a tick (1) later: Porcupine takes a return and a call at the same time for concurrent,
but sections include their ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from harness.export.formats import Choice, keys_of
from harness.export.mutex import MutexStep, mutex_steps
from harness.history.recorded import Recorded

NEVER: Final = 2**62
"""When an operation returned that never did."""


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    by_key: dict[str, list[dict[str, object]]] = {key: [] for key in keys_of(run)}
    for step in mutex_steps(run, choice, "porcupine"):
        by_key[step.key].append(_operation(step, run.timeline.start_ns))
    for number, (key, ops) in enumerate(by_key.items(), 1):
        line = {"id": number, "key": key, "window": choice.window, "model": "mutex", "ops": ops}
        yield msgspec.json.encode(line) + b"\n"


def _operation(step: MutexStep, origin_ns: int) -> dict[str, object]:
    """`kind`: a `fail` or an `info` is an acquire that was refused, or never answered."""
    call, back = 2 * (step.invoke_ns - origin_ns), 2 * (step.complete_ns - origin_ns)
    if step.f == "release":
        call = back = call + 1
    return {
        "kind": step.f if step.f == "release" or step.outcome == "ok" else step.outcome,
        "owner": f"{step.client}.{step.life}",
        "section": step.section,
        "reentry": step.reentry,
        "call": call,
        "return": NEVER if step.outcome == "info" else back,
    }
