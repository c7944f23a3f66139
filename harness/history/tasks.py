"""Faults and links name client processes; sections and operations name who used the lock. With several tasks in a
process, a fault that hit the process hit each of its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.history import FaultEvent, task_names


def hitting_tasks(events: Sequence[FaultEvent], tasks: int) -> tuple[FaultEvent, ...]:
    """The same events, with every client that they name replaced by its tasks."""
    if tasks == 1:
        return tuple(events)

    def of_links(links: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((task, node) for client, node in links for task in task_names(client, tasks))

    def of_clients(clients: Sequence[str]) -> tuple[str, ...]:
        return tuple(task for client in clients for task in task_names(client, tasks))

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
