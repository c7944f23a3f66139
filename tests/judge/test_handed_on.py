"""Leases that are handed out again by their own value, while the key of the last section is still there."""

from __future__ import annotations

import pytest

from harness.checkers import ineffective_releases, key_losses, undeleted_keys
from harness.verdict import Finding
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")
ROUND_MS = 1_000


def tenure(
    *calls: tuple[float, float, str], until: float, rounds: int = 1, is_hash: bool = False, anew: bool = False
) -> History:
    """Every second c1 is let in at 10; its release is answered at 60. Each of its further calls of the round is made
    and answered then, and refused (`fail`) or let in for 50 ms (`ok`). All nodes hold its value from 8 on until
    `until`; or, if it is set `anew`, they lose it with each release and have it again from 2 ms before each grant."""
    history, number = History(nodes=3, ttl_ms=900).watch(*NODES), 0
    for turn in range(rounds):
        at, value = ROUND_MS * turn, "client:1" if is_hash else f"v{turn}"
        grants, number = [10.0], number + 1
        history.section("c1", at + 10, None, asked=at + 5, number=number, validity_ms=80)
        history.sets("c1", value, number=number).op("c1", "release", "ok", number, at + 50, at + 60)
        for asked, answered, outcome in calls:
            number += 1
            if outcome == "fail":
                history.op("c1", "acquire", "fail", number, at + asked, at + answered)
                continue
            grants.append(answered)
            history.section("c1", at + answered, None, asked=at + asked, number=number).sets("c1", value, number=number)
            history.op("c1", "release", "ok", number, at + answered + 40, at + answered + 50)
        for node in NODES:
            for granted, gone in zip(grants, [*(after - 20 for after in grants[1:]), until], strict=True):
                if anew or granted == 10:
                    history.seen(node, "set", at + granted - 2, value, ttl=900, is_hash=is_hash)
                if anew or gone == until:
                    history.seen(node, "deleted", at + gone)
    for node in NODES:
        history.seen(node, "blind", 9_000)
    return history


def found(history: History) -> list[Finding]:
    run = history.wanted().recorded()
    checks = (ineffective_releases.check, undeleted_keys.check, key_losses.check)
    return [finding for check in checks for finding in check(run).findings]


def kinds(history: History) -> list[str]:
    return [finding.kind for finding in found(history)]


COMES_BACK = ((100, 150, "ok"), (290, 340, "ok"))
"""Its calls; the last release is answered at 390."""


@pytest.mark.parametrize("is_hash", [False, True], ids=["text", "hash"])
def test_a_key_that_its_client_takes_back_stayed_for_that_client(is_hash: bool) -> None:
    assert kinds(tenure(*COMES_BACK, until=395, rounds=4, is_hash=is_hash)) == []
    assert kinds(tenure(*COMES_BACK, until=640, rounds=4, is_hash=is_hash)) == [], "250 ms after the last release"


@pytest.mark.parametrize("is_hash", [False, True], ids=["text", "hash"])
def test_what_the_last_release_of_several_leaves_behind_is_found(is_hash: bool) -> None:
    findings = found(tenure(*COMES_BACK, until=800, rounds=4, is_hash=is_hash))
    assert [(finding.kind, finding.count) for finding in findings] == [
        ("release-without-effect", 4),
        ("keys-left-behind", 12),
    ]
    assert (findings[0].examples[0]["at_ms"], findings[0].examples[0]["for_ms"]) == (390, 410)


@pytest.mark.parametrize("is_hash", [False, True], ids=["text", "hash"])
def test_what_an_earlier_release_leaves_for_long_is_found_although_its_client_comes_back(is_hash: bool) -> None:
    late = ((315, 340, "ok"),)
    assert "release-without-effect" in kinds(tenure(*late, until=395, rounds=4, is_hash=is_hash))
    assert kinds(tenure((305, 340, "ok"), until=395, rounds=4, is_hash=is_hash)) == []


@pytest.mark.parametrize("is_hash", [False, True], ids=["text", "hash"])
def test_a_client_that_is_refused_takes_nothing_back(is_hash: bool) -> None:
    """A release that deletes nothing keeps its own client out, too."""
    assert "release-without-effect" in kinds(tenure((100, 150, "fail"), until=800, rounds=4, is_hash=is_hash))


def test_a_value_that_was_first_read_when_the_key_was_prolonged_is_that_of_its_set() -> None:
    """The section was over before the witness could read what the nodes had set."""
    history = History(nodes=3, ttl_ms=900).watch(*NODES)
    for number, at in enumerate((10.0, 100.0, 310.0), 1):
        history.section("c1", at, None, asked=at - 2, number=number)
        history.op("c1", "release", "ok", number, at + 2, at + 4)
    for node in NODES:
        for number, (words, asked, event) in enumerate(
            [
                ("SET k1 v1 NX", 8.5, "set"),
                ("EVAL keep 1 k1 v1 100", 12.5, "prolonged"),
                ("EVAL take 1 k1 v1 900", 98.5, "prolonged"),
                ("EVAL keep 1 k1 v1 400", 102.5, "prolonged"),
                ("EVAL take 1 k1 v1 900", 308.5, "prolonged"),
                ("EVAL del 1 k1 v1", 312.5, "deleted"),
            ]
        ):
            history.request("c1", node, words, asked, asked + 0.1, did=False)
            value = None if (number == 0 and node != "n3") or event == "deleted" else "v1"
            history.seen(node, event, asked + 0.1, value, ttl=None if value is None else 900)
            history.by(history.key_events[-1], len(history.requests) - 1)
        history.seen(node, "blind", 9_000)
    assert kinds(history) == []


def test_a_value_that_one_client_uses_again_is_not_shared() -> None:
    assert "shared-value" not in kinds(tenure(*COMES_BACK, until=395, anew=True))
    assert "shared-value" not in kinds(tenure(*COMES_BACK, until=395))


def test_a_value_that_two_clients_set_is_shared() -> None:
    history = tenure(until=90).section("c2", 150, 190, asked=100).sets("c2", "v0")
    history.key_events = [event for event in history.key_events if event.event != "blind"]
    history.seen("n1", "set", 149, "v0", ttl=900)
    assert "shared-value" in kinds(history)
