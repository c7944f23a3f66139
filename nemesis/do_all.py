"""Steps that faults share: do everything whatever one part raises, ask which nodes are in service, and put names into
words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cluster.parallel import at_once
from nemesis.base import World


def do_all(actions: Iterable[Callable[[], object]]) -> None:
    """Do every action, also when one of them raises; the first error is raised in the end. For healing, where one part
    that resists must not keep the others broken."""
    first_error: Exception | None = None
    for action in actions:
        try:
            action()
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def not_gone(world: World, names: Iterable[str]) -> tuple[str, ...]:
    """The nodes that are up, or that a fault took down; not the ones that went down without a fault."""
    asked = tuple(names)
    gone = at_once(world.cluster.nodes[name].went_unasked for name in asked)
    return tuple(name for name, is_gone in zip(asked, gone, strict=True) if not is_gone)


def in_service(world: World, names: Iterable[str]) -> tuple[str, ...]:
    """Those nodes that answer now: one that another fault has already taken down cannot be hit again. They are asked
    in parallel, because a dead one may keep the caller waiting."""
    asked = tuple(names)
    up = at_once(world.cluster.nodes[name].is_up for name in asked)
    return tuple(name for name, answers in zip(asked, up, strict=True) if answers)


def named(*groups: tuple[Sequence[str], str]) -> list[str]:
    """`n1,n3 dead`, for each group of names and what is said of them; nothing of an empty one."""
    return [f"{','.join(names)} {said}" for names, said in groups if names]
