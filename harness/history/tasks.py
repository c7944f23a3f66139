"""Maps between client processes, which faults, links and requests name, and tasks, which sections and operations name:
a fault that hit a process hit each of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fencepost.history import FaultEvent, task_names


def hitting_tasks(events: Sequence[FaultEvent], clients: Collection[str], tasks: int) -> tuple[FaultEvent, ...]:
    """The same events, with the tasks of every client that they name beside it. `clients`: the names of the client
    processes; nodes that copy each other have links, too."""
    if tasks == 1:
        return tuple(events)

    def users(name: str) -> tuple[str, ...]:
        return (name, *task_names(name, tasks)) if name in clients else (name,)

    return tuple(event.on_users(users) for event in events)
