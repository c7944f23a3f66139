"""Clients that believed they held what they did not."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.history import ClientEnd
from harness.checkers.quorum_backing import LOSSES, Figures, check
from harness.verdict import Answer, Finding
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def section(*, end: float = 50, deadline: Any = 105, **config: Any) -> History:
    """c1 asked at 5, is inside from 10 to 50, may believe so until 105, and shows v1; all nodes are watched."""
    history = History(**config).watch(*NODES)
    return history.section("c1", 10, end, asked=5, deadline=deadline).sets("c1", "v1")


def granted_by(*nodes: str, **options: Any) -> History:
    history = section(**options)
    for node in nodes:
        history.seen(node, "set", 8, "v1", since=6, ttl=100)
    return history


def judged(history: History) -> Answer:
    """With all nodes watched to the end."""
    whole = deepcopy(history)
    for node in NODES:
        whole.seen(node, "blind", 900)
    return check(whole.recorded())


def unfounded(history: History) -> tuple[str, float] | None:
    """The cause and the longest time; None if the client's belief was founded for all that is known."""
    figures = judged(history).figures
    if not figures.unfounded:
        assert figures.longest_ms == 0
        return None
    assert figures.unfounded == 1
    by_cause: Any = figures.by_cause
    longest: Any = figures.longest_ms
    (cause,) = (loss for loss in LOSSES if by_cause[loss])
    assert list(by_cause) == list(LOSSES)
    return cause, longest


def test_nodes_that_evict_the_keys_back_nothing_and_that_is_not_the_locks_doing() -> None:
    history = granted_by(*NODES)
    for node in NODES[:2]:
        history.seen(node, "evicted", 20)
    assert unfounded(history) == ("lost by the node", 30)
    assert [finding.blame for finding in judged(history).findings] == ["undecided"]


def only(history: History) -> Finding:
    (finding,) = judged(history).findings
    return finding


def test_a_majority_that_holds_the_value_to_the_end_is_what_the_client_believes() -> None:
    history = granted_by("n1", "n2")
    for node in ("n1", "n2"):
        history.seen(node, "deleted", 51, since=50.5)
    answer = judged(history)
    assert answer.findings == ()
    assert (answer.figures.sections, answer.figures.unfounded) == (1, 0)


def test_a_minority_is_not_enough() -> None:
    history = granted_by("n1").seen("n2", "set", 3, "other").seen("n3", "set", 3, "other")
    finding = only(history)
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "lease", 1)
    (example,) = finding.examples
    assert example == {
        "client": "c1",
        "life": 1,
        "section": 1,
        "key": "k1",
        "at_ms": 10,
        "for_ms": 40,
        "cause": "never set",
        "nodes": ("never set on n2 and n3",),
    }
    assert "1 section " in finding.text


def test_of_four_nodes_two_are_no_majority_and_three_are() -> None:
    def four(*holding: str) -> History:
        history = granted_by(*holding, nodes=4).watch("n4")
        for node in {*NODES, "n4"} - set(holding):
            history.seen(node, "set", 3, "other")
        return history.seen("n4", "blind", 900)

    assert unfounded(four("n1", "n2")) == ("never set", 40)
    assert only(four("n1", "n2")).blame == "lock"
    assert unfounded(four("n1", "n2", "n4")) is None


def test_a_lock_that_uses_one_node_of_three_has_a_majority_of_one() -> None:
    assert unfounded(granted_by("n1")) is None
    assert unfounded(granted_by("n1").seen("n1", "deleted", 30)) == ("deleted", 20)


def test_nobody_can_be_told_of_a_lock_that_shows_nothing() -> None:
    history = History().watch(*NODES).section("c1", 10, 50).seen("n1", "set", 8, "hidden")
    assert judged(history).figures == Figures(sections=0)
    assert judged(section().seen("n1", "set", 8, "not what it showed")).figures == Figures(sections=0)


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).sets("c1", "v1").recorded()) == Answer()
    assert check(section().recorded()).figures == Figures(sections=0)
    blind = History().section("c1", 10, 50).seen("n1", "blind", 5)
    assert check(blind.recorded()) == Answer()


def test_keys_that_are_deleted_before_the_release() -> None:
    history = granted_by("n1", "n2", "n3").seen("n1", "deleted", 20, since=19).seen("n2", "deleted", 30, since=29)
    assert unfounded(history) == ("deleted", 20)


def test_only_what_is_surely_gone_counts() -> None:
    """A deletion is sure when it is told, and a value may be there again as soon as it can have been set anew."""
    history = granted_by("n1", "n2").seen("n1", "deleted", 20, since=9).seen("n1", "set", 40, "v1", since=35)
    assert unfounded(history) == ("deleted", 15)


def test_a_value_that_nobody_could_read_may_be_the_clients() -> None:
    history = granted_by("n1").seen("n2", "set", 8, None).seen("n2", "deleted", 50)
    assert unfounded(history.seen("n3", "set", 3, "other")) is None
    history = granted_by("n1").seen("n2", "set", 8, None).seen("n2", "deleted", 30)
    assert unfounded(history.seen("n3", "set", 3, "other")) == ("gone unread", 20)


@pytest.mark.parametrize("seen", ["deleted", "overwritten"])
def test_values_that_nobody_could_read_went_as_one_did_that_was_seen(seen: str) -> None:
    history = granted_by("n1")
    for node in ("n2", "n3"):
        history.seen(node, "set", 8, None).seen(node, "deleted", 30)
    if seen == "deleted":
        history.seen("n1", "deleted", 30)
    else:
        history.seen("n1", "set", 30, "other")
    assert unfounded(history) == (seen, 20)


@pytest.mark.parametrize(("one", "two"), [("deleted", "overwritten"), ("overwritten", "deleted")])
def test_values_that_nobody_could_read_went_as_most_of_those_did_that_were_seen(one: str, two: str) -> None:
    nodes = [f"n{number}" for number in range(1, 7)]
    history = History(nodes=6).watch(*nodes).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1")
    for node in nodes[:3]:
        history.seen(node, "set", 8, None).seen(node, "deleted", 30)
    for node, how in zip(nodes[3:], (one, two, two), strict=True):
        history.seen(node, "set", 8, "v1", ttl=100)
        history.seen(node, "deleted", 30) if how == "deleted" else history.seen(node, "set", 30, "other")
    for node in nodes:
        history.seen(node, "blind", 900)
    figures: Any = check(history.recorded()).figures
    assert [cause for cause, number in figures.by_cause.items() if number] == [two]


def test_a_value_over_which_an_unread_one_was_set_went_as_that_one_did() -> None:
    """And a value that was set when the time in question was over says nothing of it."""
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n2", "set", 20, None, ttl=100)
    assert unfounded(history) is None
    history.seen("n2", "expired", 30)
    assert unfounded(history) == ("expired early", 20)
    assert unfounded(history.seen("n2", "set", 50, None).seen("n2", "deleted", 60)) == ("expired early", 20)
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n2", "set", 20, None)
    assert unfounded(history.seen("n2", "deleted", 30)) == ("gone unread", 20)


def test_an_unread_value_from_before_the_client_asked_is_not_its_own() -> None:
    history = granted_by("n1").seen("n2", "set", 2, None).seen("n2", "deleted", 5).seen("n3", "set", 3, "other")
    assert unfounded(history) == ("never set", 40)


def test_an_unread_value_from_after_the_time_in_question_explains_nothing() -> None:
    history = granted_by("n1").seen("n2", "set", 1, "other").seen("n2", "deleted", 2).seen("n3", "set", 3, "other")
    assert unfounded(history.seen("n2", "set", 50, None)) == ("never set", 40)


def test_the_longest_time_without_a_majority_is_told() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other")
    history.seen("n1", "deleted", 12).seen("n1", "set", 15, "v1")
    history.seen("n1", "deleted", 20).seen("n1", "set", 30, "v1").seen("n1", "deleted", 45)
    assert unfounded(history) == ("deleted", 10)
    assert only(history).examples[0]["at_ms"] == 20


def test_a_time_that_several_losses_cut_up_is_one() -> None:
    history = granted_by("n1", "n2", "n3").seen("n1", "deleted", 20).seen("n2", "deleted", 25)
    history.seen("n3", "deleted", 30)
    assert unfounded(history) == ("deleted", 25)
    assert only(history).examples[0]["nodes"] == ("deleted on n1, n2 and n3",)


def test_after_its_validity_a_client_believes_in_nothing() -> None:
    history = granted_by("n1", "n2", end=300).seen("n3", "set", 3, "other")
    history.seen("n1", "expired", 105).seen("n2", "expired", 105)
    assert unfounded(history) is None


def test_a_validity_that_may_have_been_over_is_not_counted() -> None:
    history = granted_by("n1", "n2", end=90, deadline=(30, 80)).seen("n3", "set", 3, "other")
    history.seen("n1", "deleted", 20)
    assert unfounded(history) == ("deleted", 10)


@pytest.mark.parametrize("deadline", [10, 8])
def test_a_validity_that_was_over_at_once_or_before_the_grant_is_no_belief(deadline: float) -> None:
    assert unfounded(section(deadline=deadline).seen("n1", "set", 7, "v1").seen("n1", "deleted", 7.5)) is None


def test_keys_that_expire_within_the_validity_because_nobody_gave_them_more() -> None:
    history = granted_by("n1", "n2", deadline=205, end=190).seen("n3", "set", 3, "other")
    history.seen("n1", "expired", 120).seen("n2", "expired", 120)
    assert unfounded(history) == ("expired", 70)
    assert only(history).blame == "lock"


def test_keys_whose_expiry_a_node_reports_only_when_the_client_is_out_had_expired() -> None:
    history = section(deadline=205, end=190).seen("n3", "set", 3, "other")
    for node in ("n1", "n2"):
        history.seen(node, "set", 8, "v1", since=6, ttl=100, read=8).seen(node, "expired", 300)
    found = unfounded(history)
    assert found is not None
    assert found[0] == "expired"


@pytest.mark.parametrize(("expired", "cause"), [(40, "expired"), (40.1, "expired early")])
def test_a_key_whose_extension_was_over_before_it_could_be_read_was_given_next_to_none(
    expired: float, cause: str
) -> None:
    history = granted_by("n1", "n2", end=100).seen("n3", "set", 3, "other")
    for node in ("n1", "n2"):
        history.seen(node, "prolonged", 15, "v1", ttl=200).seen(node, "prolonged", 20).seen(node, "expired", expired)
    assert unfounded(history) == (cause, 100 - expired)


@pytest.mark.parametrize(("expired", "cause"), [(88, "expired"), (87.9, "expired early")])
def test_a_node_that_expires_a_key_before_its_time_is_to_blame_for_it(expired: float, cause: str) -> None:
    history = granted_by("n1", "n2", end=100).seen("n3", "set", 3, "other")
    for node in ("n1", "n2"):
        history.seen(node, "expired", expired)  # it had until 108
    found = unfounded(history)
    assert found is not None
    assert found[0] == cause
    finding = only(history)
    assert (finding.blame, finding.breaks) == (("lock", "lease") if cause == "expired" else ("undecided", None))


def test_a_node_that_forgets_when_it_goes_down() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other")
    history.seen("n1", "blind", 20).seen("n1", "watching", 30, "second")
    assert unfounded(history) == ("lost by the node", 20)
    finding = only(history)
    assert (finding.blame, finding.breaks) == ("undecided", None)


def test_a_node_out_of_sight_may_hold_it() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "blind", 20)
    assert unfounded(history) is None


def test_a_node_out_of_sight_to_the_end_may_hold_what_it_was_never_seen_to_hold() -> None:
    history = granted_by("n1").seen("n2", "set", 3, "other").seen("n3", "set", 3, "other").seen("n2", "blind", 7)
    assert unfounded(history) is None
    # Nor does it matter that it is seen again when all is over.
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "blind", 20)
    assert unfounded(history.seen("n1", "watching", 60, "second")) is None


def test_that_a_node_was_out_of_sight_before_the_grant_does_not_matter() -> None:
    history = section().seen("n3", "set", 1, "other").seen("n1", "blind", 3).seen("n1", "watching", 4, "n1-first")
    for node in ("n1", "n2"):
        history.seen(node, "set", 8, "v1", since=6)
    assert unfounded(history) is None
    assert unfounded(history.seen("n1", "deleted", 30)) == ("deleted", 20)


def test_a_node_that_was_not_in_sight_when_the_client_asked_may_have_lost_it() -> None:
    def lost_at(at: float) -> History:
        history = History().section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1").watch(*NODES, at=-20)
        history.seen("n1", "set", 8, "v1").seen("n3", "set", 3, "other").seen("n2", "set", -10, "other")
        return history.seen("n2", "blind", at).seen("n2", "watching", 15, "second")

    assert unfounded(lost_at(7)) == ("lost by the node", 35)
    assert unfounded(lost_at(5)) == ("lost by the node", 35)
    assert unfounded(lost_at(4)) == ("unseen", 35), "up again it may have granted, and gone down before it was seen"
    assert not only(lost_at(4)).breaks


def test_a_node_that_was_down_when_the_client_asked_was_given_nothing_until_it_was_back() -> None:
    def with_fault(began: float = 2, healed: float | None = 20, at: float = 15, **more: Any) -> History:
        """n2 is out of sight from 1 to `at`, and certainly did nothing from `began` + 1 to `healed` - 1."""
        history = History().section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1").watch(*NODES, at=-20)
        history.seen("n1", "set", 8, "v1").seen("n3", "set", 3, "other").seen("n2", "set", -10, "other")
        history.seen("n2", "blind", 1).seen("n2", "watching", at, "second")
        return history.fault("f", began, healed, **{"nodes": ("n2",), "how_down": "kill"} | more)

    assert unfounded(with_fault()) == ("never set", 40)
    assert only(with_fault()).breaks == "lease"
    assert unfounded(with_fault(healed=None)) == ("unseen", 35), "nobody knows when it was back"
    assert unfounded(with_fault(how_down=None)) == ("never set", 40), "it was stopped"
    assert unfounded(with_fault(healed=12, at=15)) == ("unseen", 35), "it was back at 11"
    assert unfounded(with_fault(began=4.5)) == ("unseen", 35), "it may have been there at 5"
    assert unfounded(with_fault(holds=False)) == ("unseen", 35), "the fault did not hold"
    assert unfounded(with_fault(answers_errors=True)) == ("unseen", 35), "it answered errors, and was there"
    assert unfounded(with_fault(nodes=("n3",))) == ("unseen", 35)
    again = with_fault().fault("g", 1, 13, nodes=("n2",))
    assert unfounded(again) == ("unseen", 35), "another fault's healing may have started it"
    before = with_fault().fault("g", 0, 2.5, nodes=("n2",))
    assert unfounded(before) == ("never set", 40), "another fault was healed before it went down"
    undone = with_fault().undone("f", 12, nodes=("n2",))
    assert unfounded(undone) == ("unseen", 35), "somebody started it at 11"
    shut_down = with_fault(how_down=None).fault("g", 12, 30, nodes=("n2",), how_down="shutdown")
    assert unfounded(shut_down) == ("unseen", 35), "it was woken at 12, to shut down"
    noticed = with_fault(unplanned=True)
    assert unfounded(noticed) == ("unseen", 35), "it did not answer, and may have been at work"
    history = with_fault()
    for node in NODES:
        history.seen(node, "blind", 900)
    recorded = history.recorded()
    assert any(finding.breaks for finding in check(recorded).findings)
    for doubtful in (replace(recorded, doubts=("it broke off",)), replace(recorded, is_vouched_for=False)):
        assert not any(finding.breaks for finding in check(doubtful).findings)


def test_a_node_that_stood_still_may_hold_what_an_earlier_section_of_the_client_had_set() -> None:
    """The client's sections have one value in common."""
    history = History().watch(*NODES, at=-80).section("c1", -60, -50, number=1).sets("c1", "client:1", number=1)
    history.section("c1", 10, 50, asked=5, deadline=105, number=2).sets("c1", "client:1", number=2)
    history.seen("n3", "set", 3, "other", is_hash=True).seen("n2", "blind", -70).seen("n2", "watching", 80, "n2-first")
    for asked in (-64, 6):
        history.request("c1", "n2", "HSET k1 client:1 1", asked, asked + 1, did=False)
        history.seen("n1", "set", asked + 2, "client:1", since=asked, ttl=100, is_hash=True)
        history.seen("n1", "deleted", asked + 46)
    assert unfounded(history.fault("f", 2, 70, nodes=("n2",))) is None


def seen_on(*nodes: str, unseen: tuple[str, ...] = (), until: float = 900, asked: bool = True) -> History:
    """Five nodes, of which the witness sees some only from `until` on. The value is on the nodes named, another one on
    all others that are seen. `asked`: the client asked those for the key that are not seen."""
    five = ("n1", "n2", "n3", "n4", "n5")
    history = History(nodes=5).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1")
    for node in five:
        if node not in unseen:
            history.seen(node, "watching", 0, "first")
            history.seen(node, "set", 8, "v1" if node in nodes else "other", since=6, ttl=100)
        elif until < 900:
            history.seen(node, "watching", until, "first")
        if node in unseen and asked:
            history.request("c1", node, "SET k1 v1 NX PX 100", 6, 7, did=False)
        history.seen(node, "blind", 900)
    return history


def test_nodes_that_the_witness_never_saw_may_be_the_majority_that_backs_a_section() -> None:
    assert check(seen_on("n1", unseen=("n4", "n5")).recorded()).findings == ()


def test_nodes_that_were_never_asked_for_the_key_back_no_section() -> None:
    (finding,) = check(seen_on("n1", unseen=("n4", "n5"), asked=False).recorded()).findings
    assert finding.blame == "lock"


def test_nodes_that_come_into_sight_without_the_value_back_it_no_longer_but_may_have_lost_it() -> None:
    (finding,) = check(seen_on("n1", unseen=("n4", "n5"), until=30).recorded()).findings
    assert finding.blame == "undecided"
    assert finding.examples[0]["for_ms"] == pytest.approx(20)


def test_without_any_help_of_nodes_out_of_sight_the_lock_is_still_to_blame() -> None:
    (finding,) = check(seen_on("n1", unseen=("n5",)).recorded()).findings
    assert finding.blame == "lock"


@pytest.mark.parametrize(("unseen", "checked"), [((), 1), (("n4", "n5"), 1), (("n3", "n4", "n5"), 0)])
def test_a_section_counts_as_checked_only_if_a_majority_of_the_nodes_was_in_sight(
    unseen: tuple[str, ...], checked: int
) -> None:
    figures = check(seen_on("n1", "n2", "n3", unseen=unseen).recorded()).figures
    assert figures.sections == checked
    assert figures.unfounded == 0


def test_a_section_that_was_watched_only_in_part_is_not_vouched_for() -> None:
    history = seen_on("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 30).seen(node, "seen", 31, "v1", ttl=60).seen(node, "watching", 31, "first")
    history.key_events.sort(key=lambda event: event.at_ns)
    assert check(history.recorded()).figures.sections == 0


def test_what_is_lost_at_the_end_of_the_time_in_question_is_not_its_cause() -> None:
    history = granted_by("n1").seen("n2", "set", 3, "other").seen("n3", "set", 3, "other").seen("n2", "blind", 50)
    assert unfounded(history) == ("never set", 40)


def test_losses_of_the_lock_and_of_nodes_are_kept_apart() -> None:
    """Without the one deletion two of three would have been left; without the node's loss as well."""
    history = granted_by("n1", "n2", "n3").seen("n1", "deleted", 20)
    history.seen("n2", "blind", 20).seen("n2", "watching", 25, "second")
    finding = only(history)
    assert finding.blame == "undecided"
    assert finding.examples[0]["nodes"] == ("deleted on n1", "lost by n2")


def test_a_node_that_was_unobserved_for_a_while_and_may_have_held_the_value_throughout_is_no_loss() -> None:
    """n1 and n2 never had it, n3 forgot it; the lock is to blame only if n4 had lost it too."""
    five = ("n1", "n2", "n3", "n4", "n5")
    history = History(nodes=5).watch(*five).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1")
    for node in five:
        history.seen(node, "set", 8, "v1" if node in ("n3", "n4", "n5") else "other", since=6, ttl=100)
    history.seen("n3", "blind", 20).seen("n3", "watching", 25, "second").seen("n4", "blind", 30)
    history.seen("n4", "seen", 40, "v1", ttl=60).seen("n4", "watching", 40, "n4-first").seen("n4", "deleted", 60)
    for node in five:
        history.seen(node, "blind", 900)
    (finding,) = check(history.recorded()).findings
    assert finding.blame == "undecided"
    assert finding.examples[0]["nodes"] == ("never set on n1 and n2", "lost by n3")


def test_a_value_set_over_it_is_a_loss_as_well() -> None:
    history = granted_by("n1", "n2", "n3").seen("n1", "set", 20, "v2")
    assert unfounded(history) is None
    assert unfounded(history.seen("n2", "set", 25, "v2")) == ("overwritten", 25)


def test_each_section_is_judged_by_its_own_value_and_key() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "deleted", 51).seen("n2", "deleted", 51)
    history.section("c2", 60, 90, key="k2").sets("c2", "v2")
    for node in NODES:
        history.seen(node, "set", 58, "v2", key="k2")
    assert judged(history).figures.unfounded == 0
    history.section("c2", 100, 140, number=2).sets("c2", "v3", number=2).seen("n1", "set", 98, "v3")
    history.seen("n2", "set", 98, "v4")
    figures = judged(history).figures
    assert (figures.sections, figures.unfounded) == (3, 1)


def test_several_show_the_longest_first(golden: Golden) -> None:
    history = granted_by("n1", "n2", "n3")
    for node in NODES:
        history.seen(node, "deleted", 45)
    history.section("c2", 60, 90).sets("c2", "v2")
    for node in NODES:
        history.seen(node, "set", 58, "v2").seen(node, "deleted", 70)
    finding = only(history)
    assert finding.count == 2
    assert [example["client"] for example in finding.examples] == ["c2", "c1"]
    assert "2 sections" in finding.text
    golden(finding.text)
    assert judged(history).figures.longest_ms == 20


def test_a_client_that_is_killed_while_it_releases_believes_in_nothing_any_more() -> None:
    history = History().watch(*NODES).section("c1", 10, None, asked=5).sets("c1", "v1")
    history.op("c1", "write", "ok", 1, 20, 25, value=1)
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=100).seen(node, "deleted", 30)
    history.ends.append(ClientEnd("c1", 1, "killed", ms(40), "releasing"))
    assert judged(history).findings == ()
    history.ends = [ClientEnd("c1", 1, "killed", ms(40), "inside")]
    assert unfounded(history) == ("deleted", 10)


def test_many_holdings_before_and_behind_do_not_matter() -> None:
    history = History().watch(*NODES).section("c1", 210, 250, asked=205, deadline=305).sets("c1", "v1")
    for node in NODES:
        for at in (0, 40, 80, 300, 340):
            history.seen(node, "set", at + 1, f"other {at}").seen(node, "deleted", at + 30)
    history.key_events.sort(key=lambda event: event.at_ns)
    for node in NODES[:2]:
        history.seen(node, "set", 208, "v1").seen(node, "deleted", 251)
    history.key_events.sort(key=lambda event: event.at_ns)
    assert unfounded(history) is None


def test_of_a_key_that_no_node_ever_held_nobody_knows_whose_it_would_be() -> None:
    history = granted_by("n1", "n2").section("c2", 60, 90, key="k2").sets("c2", "v2")
    assert judged(history).figures.unfounded == 0


happenings = st.tuples(
    st.sampled_from(NODES),
    st.sampled_from(["set", "set", "set", "deleted", "expired", "out of sight or back"]),
    st.integers(0, 2),  # so much later than the one before
    st.integers(0, 2),  # for so long it may have happened unnoticed
    st.sampled_from(["v0", "v0", "v1", "v1", "v2", None]),
)
spans = st.tuples(st.integers(2, 12), st.integers(0, 12), st.integers(-1, 14))


def told(happened: list[tuple[str, str, int, int, str | None]]) -> History:
    """A history in which all nodes were watched from 0 to 40."""
    history = History(clients=3).watch(*NODES)
    at, since = 1, dict.fromkeys(NODES, 0)
    out: set[str] = set()
    for node, event, later, unnoticed, value in happened:
        at += later
        since[node] = max(since[node], at - unnoticed)
        if event == "out of sight or back":
            if node in out:
                history.seen(node, "seen", at, value).seen(node, "watching", at, f"run {unnoticed}")
            else:
                history.seen(node, "blind", at)
            out ^= {node}
        elif node not in out:
            history.seen(node, event, at, value, since=since[node])
    for node in NODES:
        history.seen(node, "blind", 40)
    return history


@settings(max_examples=30)
@given(st.lists(happenings, min_size=4, max_size=16), st.lists(spans, min_size=1, max_size=3))
def test_a_belief_is_unfounded_when_no_majority_may_hold_the_value_between_two_moments(
    happened: list[tuple[str, str, int, int, str | None]], sections: list[tuple[int, int, int]]
) -> None:
    history = told(happened)
    for number, (start, length, validity) in enumerate(sections):
        client = f"c{number}"
        history.section(client, start, start + length, deadline=start + validity).sets(client, f"v{number}")
    for node in NODES:
        history.request("c0", node, "GET k1", 0.1, 0.2, reply="null", did=False)
    run = history.recorded()
    assert run.watched is not None
    assert run.owners is not None
    held, watched = run.owners.holdings.to_dict("records"), run.watched
    places = {client: place for place, client in enumerate(run.sections["client"])}

    def is_seen(node: str, at_ns: float) -> bool:
        return any(window.from_ns <= at_ns <= window.to_ns for window in watched.of(node))

    def may_hold(node: str, client: str, at_ns: float) -> bool:
        own = (row for row in held if row["value"] is None or row["client"] in (None, client))
        return not is_seen(node, at_ns) or any(
            row["node"] == node and row["from_min_ns"] <= at_ns <= row["to_max_ns"] for row in own
        )

    used = {row["node"] for row in held}
    longest = []
    for number, (start, length, validity) in enumerate(sections):
        without, is_told = [0], places[f"c{number}"] in run.owners.values
        for at in range(start, min(start + length, start + validity)) if is_told else ():
            holding = sum(may_hold(node, f"c{number}", ms(at + 0.5)) for node in used)
            unseen = sum(not is_seen(node, ms(at + 0.5)) for node in NODES if node not in used)
            without.append(without[-1] + 1 if (holding + unseen) * 2 <= len(used) + unseen else 0)
        longest.append(max(without))
    figures = check(run).figures
    if figures.unfounded is not None:  # some value that the lock showed was seen on a node
        assert (figures.unfounded, figures.longest_ms) == (sum(map(bool, longest)), max(longest))


def unread_after_own(*then: tuple[str, float]) -> tuple[str, float] | None:
    """n1 and n2 hold the client's value, n3 another's; at 20 n1 was set to what could not be read, and then this."""
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "set", 20)
    for event, at in then:
        history.seen("n1", event, at, "w" if event == "set" else None)
    return unfounded(history)


def test_a_value_that_was_set_anew_unread_is_lost_with_that_one() -> None:
    """It may have been the client's own, as locks extend that SET their value once more."""
    assert unread_after_own() is None
    assert unread_after_own(("deleted", 30)) == ("gone unread", 20)
    assert unread_after_own(("set", 30)) == ("gone unread", 20)
    assert unread_after_own(("expired", 40.1)) == ("expired early", 9.9)  # how long it was to live is not known
    assert unread_after_own(("expired", 40)) == ("expired", 10)  # next to none


def test_a_value_that_came_late_and_was_still_there_was_not_lost() -> None:
    history = section()
    for node in ("n1", "n3"):
        history.seen(node, "set", 3, "other").seen(node, "deleted", 4)
    history.seen("n2", "set", 2).seen("n2", "deleted", 4).seen("n2", "set", 30, "v1", ttl=100)
    for replaced in (None, 50, 60):
        late = history if replaced is None else deepcopy(history).seen("n2", "set", replaced)
        assert unfounded(late) == ("never set", 40)
        assert only(late).examples[0]["nodes"] == ("never set on n1, n2 and n3",)


@pytest.mark.parametrize(("requested", "cause"), [(None, "gone unread"), (7.9, "gone unread"), (8, "never set")])
def test_an_unread_value_of_an_earlier_round_is_not_what_the_last_one_set(requested: float | None, cause: str) -> None:
    told = {} if requested is None else {"requested_ns": ms(requested)}
    history = History().watch("n1", "n2", "n3").section("c1", 10, 50, asked=1, **told).sets("c1", "v1")
    history.seen("n1", "set", 9, "v1", ttl=100).seen("n2", "set", 4, None).seen("n2", "deleted", 8)
    assert unfounded(history.seen("n3", "set", 3, "other")) == (cause, 40)


def test_a_node_that_was_started_anew_after_the_yes_had_lost_by_then_what_expired() -> None:
    history = section().seen("n3", "set", 3, "other")
    for node in ("n1", "n2"):
        history.seen(node, "set", 8, "v1", since=6, ttl=12, read=8).seen(node, "expired", 21)
        history.seen(node, "blind", 30).seen(node, "watching", 35, f"{node}-second")
    assert unfounded(history) == ("expired", 15)


@pytest.mark.parametrize(("clock", "blame"), [(True, "undecided"), (False, "lock")])
def test_what_a_later_round_may_have_set_out_of_sight_may_be_gone_by_a_wrong_clock(clock: bool, blame: str) -> None:
    """n1 and n2 gave the key of the first round back, and were out of sight when the yes came, at 1,900."""
    history = History(ttl_ms=1000).watch(*NODES).sets("c1", "v1")
    history.op("c1", "acquire", "ok", 1, 1, 1900, deadline_ns=ms(2480), validity_ms=580.0)
    history.op("c1", "release", "ok", 1, 2400, 2401).seen("n3", "set", 1500, "v1", since=1499, ttl=1000)
    for node in NODES[:2]:
        history.seen(node, "set", 8, "v1", since=7, ttl=1000).seen(node, "deleted", 300, since=299)
        history.seen(node, "blind", 1490).seen(node, "watching", 1950, f"{node}-first")
    if clock:
        history.fault("f", 1480, 3000, nemesis="clock", wrong_clocks=("n1", "n2"), clock_off_ms=5000.0)
    history.seen("n3", "deleted", 2401)
    for node in NODES:
        history.seen(node, "blind", 3000)
    assert [finding.blame for finding in check(history.recorded()).findings] == [blame]


def test_a_value_that_came_again_too_late_was_lost_before() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "deleted", 20)
    history.seen("n1", "set", 49, "v1", ttl=100).seen("n1", "deleted", 60).seen("n2", "deleted", 25)
    assert unfounded(history) == ("deleted", 30)
    assert only(history).examples[0]["nodes"] == ("deleted on n1 and n2", "never set on n3")


def test_values_that_came_between_two_looks_came_in_their_order() -> None:
    history = granted_by("n2").seen("n3", "set", 3, "other").seen("n1", "set", 8, "v1", since=6, ttl=100)
    assert unfounded(history.seen("n1", "set", 9, since=6).seen("n1", "deleted", 30)) == ("gone unread", 20)


def test_an_unread_value_that_its_node_lost_was_not_taken_by_the_lock() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "set", 20)
    history.seen("n1", "blind", 25).seen("n1", "watching", 30, "second")
    assert unfounded(history) == ("lost by the node", 20)
    assert only(history).blame == "undecided"


def test_of_several_unread_values_the_last_one_before_the_time_in_question_counts() -> None:
    history = granted_by("n1", "n2").seen("n3", "set", 3, "other").seen("n1", "set", 20).seen("n1", "set", 22)
    history.seen("n1", "blind", 25).seen("n1", "watching", 30, "second").seen("n1", "set", 50)
    assert unfounded(history) == ("lost by the node", 20)


def lent_again(client: str = "c1", *, deleted: float | None = 62) -> History:
    """c1 releases at 50, and gets the same lease, with the same value, again at 60; the keys go at `deleted`."""
    history = granted_by(*NODES).op("c1", "release", "info", 1, 50, 55)
    history.section(client, 60, 90, asked=59, deadline=105, number=2).sets(client, "v1", number=2)
    for node in NODES if deleted is not None else ():
        history.seen(node, "deleted", deleted, since=deleted - 1)
    return history


def test_a_value_that_its_client_uses_for_two_sections_must_be_on_the_nodes_in_both() -> None:
    assert unfounded(lent_again(deleted=None)) is None
    assert unfounded(lent_again()) == ("never set", 28), "nothing was set for this section"
    assert (only(lent_again()).blame, only(lent_again()).examples[0]["section"]) == ("lock", 2)


def test_a_value_that_two_clients_set_tells_nothing_about_either() -> None:
    history = lent_again("c2")
    assert judged(history).figures.sections == 2
    for node in NODES:
        history.seen(node, "set", 199, "v1")
    assert judged(history).figures.sections == 0


def test_two_keys_of_a_lock_on_one_node_are_looked_at_in_the_order_in_which_they_began() -> None:
    """One was set just when the witness came back; the other one, which it then found, may have been there before."""
    history = History().watch("n1").section("c1", 210, 230, asked=201).sets("c1", "v1")
    history.section("c2", 240, 250, asked=90).sets("c2", "v2")
    history.seen("n1", "set", 95, "v2", key="k1#2").seen("n1", "deleted", 96, key="k1#2")
    history.seen("n1", "blind", 100).seen("n1", "watching", 200, "n1-second")
    history.seen("n1", "set", 206, "v1", key="k1#1", since=203).seen("n1", "seen", 207, "v2", key="k1#2")
    backing = history.seen("n1", "blind", 900).recorded().backing
    assert backing is not None
    assert backing.lines["n1", "k1"].from_min == [ms(95), ms(100), ms(203)]
    assert backing.possible_holders(0, ms(201), ms(202)) == []
    assert backing.possible_holders(0, ms(201), ms(204)) == ["n1"]


def test_of_an_unread_value_nothing_may_be_left_to_look_at() -> None:
    """All that the witness saw on n2 lies in one wide window, so no unread value certainly began after c1's own."""
    history = History(clients=3).watch("n1", "n2", "n3")
    history.section("c1", 10, 50, asked=8, deadline=106).section("c2", 30, 60, asked=28, deadline=126)
    for node in ("n1", "n2"):
        history.seen(node, "set", 10.5, "c1-1", since=8.5, ttl=100)
    for at, event in enumerate(("prolonged", "set", "set", "expired", "set", "deleted")):
        history.seen("n2", event, 10 + at, None if at else "c1-1", since=8, ttl=1)
    for node in ("n2", "n3"):
        history.seen(node, "set", 30.5, "c2-1", since=28.5, ttl=100)
    figures = check(history.sets("c1", "c1-1").sets("c2", "c2-1").recorded()).figures
    assert figures is not None


def test_whose_place_of_a_semaphore_it_was_is_not_known_if_several_tasks_of_a_client_ask() -> None:
    def deleted(**config: Any) -> History:
        history = History(**config).watch(*NODES)
        history.section("c1@1", 10, 50, asked=5, deadline=105).sets("c1@1", "v1")
        for node in NODES:
            history.seen(node, "set", 8, "v1", since=6, ttl=100).seen(node, "deleted", 20)
        return history

    cause, _ = unfounded(deleted(workload="semaphore", permits=2)) or ("", 0)
    assert cause == "deleted"
    assert judged(deleted(workload="semaphore", permits=2, tasks=2)).figures.unfounded is None


def test_the_examples_are_of_the_commonest_loss() -> None:
    history = History().watch(*NODES)
    for number, (how, lost) in enumerate([("overwritten", 30), ("deleted", 40), ("deleted", 45)], 1):
        at = 200 * number
        history.section("c1", at + 10, at + 90, asked=at + 5, deadline=at + 105, number=number)
        history.sets("c1", f"v{number}", number=number)
        for node in NODES:
            history.seen(node, "set", at + 8, f"v{number}", since=at + 6, ttl=100)
            event, value = ("set", "other") if how == "overwritten" else (how, None)
            history.seen(node, event, at + lost, value)
            history.seen(node, "deleted", at + 120) if value else None
    finding = only(history)
    assert (finding.count, [example["cause"] for example in finding.examples]) == (3, ["deleted", "deleted"])
