"""Faults and links name client processes; sections and operations name who used the lock. With several tasks in a
process, a fault that hit the process hit each of its tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from fencepost.history import FaultEvent, task_names


def hitting_tasks(events: Sequence[FaultEvent], clients: Collection[str], tasks: int) -> tuple[FaultEvent, ...]:
    """The same events, with every client that they name replaced by its tasks. `clients`: the names of the client
    processes; nodes that copy each other have links, too."""
    if tasks == 1:
        return tuple(events)

    def users(name: str) -> tuple[str, ...]:
        return task_names(name, tasks) if name in clients else (name,)

    def of_links(links: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((user, node) for dialler, node in links for user in users(dialler))

    def of_clients(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(user for name in names for user in users(name))

    return tuple(
        msgspec.structs.replace(
            event,
            cut_links=of_links(event.cut_links),
            slow_links=of_links(event.slow_links),
            paused_clients=of_clients(event.paused_clients),
            killed_clients=of_clients(event.killed_clients),
            wrong_client_clocks=of_clients(event.wrong_client_clocks),
        )
        for event in events
    )
