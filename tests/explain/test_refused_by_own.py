"""Clients that are refused by keys of their own, which an earlier round of the acquire had set."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explain.refused_by_own import refused_by_own
from tests.golden import Golden
from tests.judge.histories import History, ms


def rounds(
    *, value: str = "a", reply: str = "null", undone: float = 90, client: str = "c1", until: float = 100
) -> str | None:
    """c1 sets its key on n1 at 10 and asks for it three times more; it is gone by `undone`."""
    history = History(nodes=1).watch("n1").op("c1", "acquire", "fail", 1, 5, 95)
    history.request("c1", "n1", "SET k1 a NX PX 400", 10, 11).seen("n1", "set", 10.5, "a", since=10, ttl=400)
    for at in (20, 30, 40):
        history.request("c1", "n1", f"SET k1 {value} NX PX 400", at, at + 1, reply=reply, did=False)
    history.request("c1", "n1", "DEL k1", undone, undone + 1, reply="1").seen(
        "n1", "deleted", undone + 0.5, since=undone
    )
    return refused_by_own(history.recorded(), [client], ms(5), ms(until))


def test_a_node_refuses_a_client_by_its_own_key(golden: Golden) -> None:
    golden(str(rounds()))


@pytest.mark.parametrize(
    "how",
    [{"value": "b"}, {"reply": '"OK"'}, {"undone": 35}, {"client": "c2"}, {"until": 35}],
    ids=["another value", "granted", "gone before the third", "another client", "too few in this time"],
)
def test_it_was_not_refused_so(how: dict[str, Any]) -> None:
    assert rounds(**how) is None
