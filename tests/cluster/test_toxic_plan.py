"""What Toxiproxy is asked, and in which order, without a Toxiproxy."""

from __future__ import annotations

from cluster.address import Address
from cluster.base import Cut, Delay
from cluster.toxic_plan import ToxicPlan, has_retired, owners
from cluster.toxiproxy_api import ProxyState

HERE = Address("127.0.0.1", 1)
WHOLE = ProxyState(HERE, HERE, enabled=True, toxics={})


def steps(plan: ToxicPlan) -> list[str]:
    """Each request in a few words."""
    return [f"{r.method} {r.path.removeprefix('/proxies/c1-n1')} {_gist(r.body)}".strip() for r in plan.requests]


def _gist(body: object) -> str:
    assert body is None or isinstance(body, dict)
    if not body:
        return ""
    if "enabled" in body:
        return f"enabled={body['enabled']}"
    return f"{body.get('name', '')} toxicity={body['toxicity']}".strip()


def after(*impairments: tuple[str, Cut | Delay | None], state: ProxyState = WHOLE) -> ToxicPlan:
    """The plan of the last of these, each (owner, impairment), when the others were carried out."""
    plan = ToxicPlan("c1-n1", state, frozenset())
    for owner, impairment in impairments:
        plan = ToxicPlan("c1-n1", plan.state, plan.refusers)
        plan.impair(owner, impairment)
    return plan


def test_what_is_asked_for_again_needs_no_request() -> None:
    cut = ("f1", Cut("hold", "both"))
    assert after(cut, cut).requests == []


def test_a_new_toxic_comes_before_the_old_one_goes() -> None:
    plan = after(("f1", Cut("hold", "to-node")), ("f1", Cut("drop", "to-node")))
    assert steps(plan) == [
        "POST /toxics f1:timeout:upstream toxicity=1.0",
        "POST /toxics/f1%3Alatency%3Aupstream toxicity=0.0",
    ]


def test_a_healed_toxic_is_retired_and_removed_later_the_last_one_first() -> None:
    healed = after(("f1", Cut("hold", "both")), ("f1", None))
    assert has_retired(healed.state)
    assert owners(healed.state, healed.refusers) == set()
    later = ToxicPlan("c1-n1", healed.state, frozenset())
    later.remove_retired()
    assert steps(later) == ["DELETE /toxics/f1%3Alatency%3Adownstream", "DELETE /toxics/f1%3Alatency%3Aupstream"]
    assert later.state == WHOLE


def test_a_retired_toxic_stays_while_another_one_is_active() -> None:
    plan = after(("f1", Cut("hold", "to-node")), ("f2", Delay(5, 0, "both")), ("f1", None))
    plan.requests.clear()
    plan.remove_retired()
    assert plan.requests == []


def test_what_swallowed_bytes_is_removed_at_once_which_closes_the_connections() -> None:
    assert steps(after(("f1", Cut("drop", "to-node")), ("f1", None))) == ["DELETE /toxics/f1%3Atimeout%3Aupstream"]


def test_under_another_fault_the_connections_are_closed_by_disabling_the_proxy() -> None:
    plan = after(("f1", Cut("drop", "to-node")), ("f2", Delay(5, 0, "both")), ("f1", None))
    assert steps(plan) == [
        "POST  enabled=False",
        "POST /toxics/f1%3Atimeout%3Aupstream toxicity=0.0",
        "POST  enabled=True",
    ]


def test_a_link_refuses_until_the_last_one_who_refuses_heals() -> None:
    cuts = ("f1", Cut("refuse", "both")), ("f2", Cut("refuse", "both"))
    assert steps(after(*cuts, ("f1", None))) == []
    assert steps(after(*cuts, ("f1", None), ("f2", None))) == ["POST  enabled=True"]


def test_healing_everyone_leaves_nothing_active() -> None:
    plan = after(("f1", Cut("refuse", "both")), ("f2", Cut("hold", "both")), ("f3", Cut("drop", "to-node")))
    plan.heal_everyone()
    assert owners(plan.state, plan.refusers) == set()
    plan.remove_retired()
    assert plan.state == WHOLE
