"""A history in EDN, an operation a line, as Jepsen writes them and as Jepsen and Knossos read them.

    {:index 12, :time 1803455120, :type :ok, :process 3, :f :acquire, :value nil, :key "k1", :section 7}

Every operation has an `:invoke` and, unless its process crashed, an `:ok` or a `:fail`. Times are nanoseconds since the
start of the load. The faults are there as operations of the process `:nemesis`. What is written is so little of EDN
(keywords, integers, and texts, which EDN escapes as JSON does) that it needs no library; the one for Python has not
been released since 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.history import FaultEvent
from harness.export.formats import Choice, keys_of
from harness.export.mutex import MutexStep, mutex_steps
from harness.history.recorded import Recorded

_ENTERED, _RELEASED, _CALLED, _CAME_BACK = range(4)
"""The order of what has the same time. A section includes its end: who enters at that time is in before it is over."""
_Event = tuple[int, int, str, MutexStep | FaultEvent]
"""When; its place among what has the same time; `:type`, or what a fault did; and whose it is."""
_NEMESIS: Final = {"injected": "start", "undone": "undo", "healed": "stop"}


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    if len(keys := keys_of(run)) > 1:
        raise UsageError(f"--to jepsen writes the history of one lock; name a key with --key: {', '.join(keys)}")
    steps = list(mutex_steps(run, choice, "jepsen"))
    owners = sorted({(step.client, step.life) for step in steps}, key=lambda owner: (len(owner[0]), *owner))
    # A process that crashed never does anything again; its client goes on under another number, as in Jepsen.
    process = {owner: number for number, owner in enumerate(owners)}
    events: list[_Event] = [event for step in steps for event in _events(step)]
    events += [(fault.done_ns, 0, _NEMESIS[fault.event], fault) for fault in run.faults]
    events.sort(key=lambda event: event[:2])
    for index, (at_ns, _, kind, what) in enumerate(events):
        head = f"{{:index {index}, :time {at_ns - run.timeline.start_ns}"
        if isinstance(what, FaultEvent):
            tail = f":type :info, :process :nemesis, :f :{kind}, :value {_text(what.what)}"
        else:
            owner = what.client, what.life
            tail = f":type :{kind}, :process {process[owner]}, :f :{what.f}, :value nil"
            tail += f", :client {_text(f'{what.client}.{what.life}')}, :key {_text(what.key)}, :section {what.section}"
            if kind == "info":
                process[owner] += len(owners)
        yield f"{head}, {tail}}}\n".encode()


def _events(step: MutexStep) -> Iterator[_Event]:
    if step.f == "release":
        yield step.invoke_ns, _RELEASED, "invoke", step
        yield step.invoke_ns, _RELEASED, step.outcome, step
    else:
        yield step.invoke_ns, _CALLED, "invoke", step
        at_once = step.complete_ns == step.invoke_ns
        yield step.complete_ns, _CAME_BACK if at_once or step.reentry else _ENTERED, step.outcome, step


def _text(text: str) -> str:
    return msgspec.json.encode(text).decode()
