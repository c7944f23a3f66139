"""Which increments were lost, through whom, and whether the resource can be believed."""

from __future__ import annotations

import numpy as np

from fencepost.history import Write
from harness.checkers.counter import Figures, check, squeezed
from harness.verdict import Finding
from tests.golden import Golden
from tests.judge.histories import History


def findings(history: History) -> dict[tuple[str, str], Finding]:
    return {(finding.kind, finding.blame): finding for finding in check(history.recorded()).findings}


def clean() -> History:
    history = History().section("c1", 0, 10).section("c2", 20, 30)
    return history.write("c1", 1, at=5).write("c2", 2, at=25)


def test_writes_that_build_on_each_other_lose_nothing() -> None:
    answer = check(clean().recorded())
    assert answer.findings == answer.unknown == ()
    assert answer.figures == Figures(
        acknowledged=2, accepted=2, lost=0, lost_unacknowledged=0, final={"k1": 2}, complete=True
    )


def test_a_lost_increment_makes_no_later_value_impossible() -> None:
    history = overlapping().section("c3", 70, 80).section("c4", 90, 99)
    history.write("c3", 2, at=75).write("c4", 3, at=95)
    assert list(findings(history)) == [("lost-update", "lock")]


def overlapping(until: float = 50) -> History:
    history = History().section("c1", 0, until).section("c2", 10, 60)
    return history.write("c2", 1, at=20).write("c1", 1, at=30)


def test_two_that_read_the_same_lose_one(golden: Golden) -> None:
    finding = findings(overlapping())["lost-update", "lock"]
    assert (finding.count, finding.breaks) == (1, "data")
    golden(finding.text)
    lost, by = finding.examples[0]["lost"], finding.examples[0]["by"]
    assert (lost["client"], by["client"]) == ("c2", "c1")  # type: ignore[index]


def test_an_update_was_lost_when_the_client_was_told_of_the_write_that_overwrote_it() -> None:
    finding = findings(overlapping())["lost-update", "lock"]
    assert finding.at_ms == finding.examples[0]["at_ms"] == 31


def test_the_first_lost_update_need_not_be_one_of_the_first_key() -> None:
    history = History(keys=2, clients=4).section("c1", 0, 50).section("c2", 10, 60)
    history.section("c3", 5, 150, key="k2", deadline=150).section("c4", 6, 160, key="k2", deadline=160)
    history.write("c4", 1, at=10, key="k2").write("c2", 1, at=20).write("c1", 1, at=30)
    finding = findings(history.write("c3", 1, at=130, key="k2"))["lost-update", "lock"]
    assert (finding.count, finding.at_ms, finding.examples[0]["at_ms"]) == (2, 31, 131)


def test_the_overlap_s_blame_is_the_loss_s_blame() -> None:
    history = History().section("c1", 0, 500).section("c2", 120, 140)
    assert set(findings(history.write("c2", 1).write("c1", 1))) == {("lost-update", "client")}
    history = History().section("c1", 50, 500, deadline=(110, 130)).section("c2", 120, 140)
    assert set(findings(history.write("c2", 1).write("c1", 1))) == {("lost-update", "undecided")}


def test_a_late_write_loses_everything_built_since() -> None:
    history = History(clients=3).section("c1", 0, 500).section("c2", 110, 200).section("c3", 210, 300)
    history.write("c2", 1).write("c3", 2).write("c1", 1)
    assert findings(history)["lost-update", "client"].count == 2


def test_what_was_lost_already_is_not_lost_again(golden: Golden) -> None:
    history = History(clients=3).section("c1", 0, 50).section("c2", 10, 60).section("c3", 20, 70)
    history.write("c1", 1).write("c2", 1).write("c3", 1)
    finding = findings(history)["lost-update", "lock"]
    assert finding.count == 2
    golden(finding.text)
    assert [(e["lost"]["client"], e["by"]["client"]) for e in finding.examples] == [("c1", "c2"), ("c2", "c3")]  # type: ignore[index]


def test_an_increment_that_nobody_was_told_of_is_listed_apart() -> None:
    history = History().section("c1", 0, 50).section("c2", 10, 60).write("c1", 1, told=False).write("c2", 1)
    answer = check(history.recorded())
    assert answer.findings == ()
    assert (answer.figures.lost, answer.figures.lost_unacknowledged) == (0, 1)


def test_keys_are_counted_apart() -> None:
    history = History().section("c1", 0, 10, key="k1").section("c2", 5, 30, key="k2")
    assert findings(history.write("c1", 1, key="k1").write("c2", 1, key="k2")) == {}


def test_a_loss_without_any_overlap_breaks_everything_because_the_harness_must_be_wrong() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 1)
    assert findings(history)["lost-update", "harness"].breaks == "record"


def late(told: bool, **first: float) -> History:
    """The first holder's write arrives when it has long left, after the second holder's."""
    history = History().section("c1", 0, 10, **first).section("c2", 20, 30).write("c2", 1)
    return history.write("c1", 1, told=told)


def test_a_write_that_its_client_gave_up_on_may_arrive_late_and_that_is_the_client_s_fault(golden: Golden) -> None:
    found = findings(late(told=False))
    assert set(found) == {("lost-update", "client")}
    assert found["lost-update", "client"].breaks == "data"
    golden(found["lost-update", "client"].text)


def test_a_client_that_was_told_that_its_write_is_done_left_nothing_on_its_way() -> None:
    assert set(findings(late(told=True))) == {("lost-update", "harness")}


def test_a_later_holder_s_unacknowledged_write_cannot_have_read_the_past() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 1, told=False)
    assert set(findings(history)) == {("lost-update", "harness")}


def test_a_write_of_a_killed_client_may_arrive_late_too() -> None:
    history = History().section("c1", 0, None).end("c1", "killed", 10).section("c2", 120, 130).write("c2", 1)
    history.writes.append(Write("k1", 0, "c1", 1, 1))
    assert set(findings(history)) == {("lost-update", "client")}


def test_losses_by_late_writes_and_by_late_clients_are_one_finding(golden: Golden) -> None:
    history = late(told=False).section("c1", 100, 500, number=2).section("c2", 220, 240, number=2)
    history.write("c2", 2, number=2).write("c1", 2, number=2)
    finding = findings(history)["lost-update", "client"]
    assert finding.count == 2
    golden(finding.text)


def test_an_overlap_of_another_key_is_no_excuse() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 1)
    history.section("c1", 100, 120, key="k2", number=2).section("c2", 110, 130, key="k2", number=2)
    assert ("lost-update", "harness") in findings(history)


def test_an_overlap_elsewhere_on_the_key_leaves_it_undecided() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 1)
    history.section("c1", 100, 120, number=2).section("c2", 110, 130, number=2)
    assert findings(history)["lost-update", "undecided"].breaks == "data"


def test_a_record_that_was_cut_short_accuses_nobody_of_a_loss_without_overlap() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 1)
    history.timeline.end_ns = None
    assert set(findings(history)) == {("lost-update", "undecided")}


def test_an_acknowledged_write_that_the_record_does_not_have_is_the_resource_s_fault() -> None:
    history = clean()
    del history.writes[1]
    finding = findings(history)["unrecorded-write", "resource"]
    assert (finding.count, finding.breaks) == (1, "record")


def test_an_incomplete_record_is_not_accused_of_missing_writes_but_vouches_for_nothing(golden: Golden) -> None:
    history = clean()
    del history.writes[1]
    history.final_is_last_write = False
    answer = check(history.recorded())
    assert answer.findings == ()
    golden("\n".join(answer.unknown))


def test_an_incomplete_record_still_convicts() -> None:
    history = overlapping()
    history.final_is_last_write = False
    answer = check(history.recorded())
    assert [finding.kind for finding in answer.findings] == ["lost-update"]
    assert answer.unknown == ()


def test_the_last_read_must_give_what_the_last_write_left(golden: Golden) -> None:
    history = clean()
    history.final = {"k1": 1}
    finding = findings(history)["wrong-final-value", "resource"]
    assert finding.breaks == "record"
    assert finding.examples == ({"key": "k1", "read": 1, "last_write": 2},)
    golden(finding.text)
    history.final = {"k1": 1, "k2": 1}
    golden(findings(history)["wrong-final-value", "resource"].text)


def test_a_counter_that_nobody_wrote_reads_zero() -> None:
    history = clean()
    history.final = {"k1": 2, "k2": 0}
    assert findings(history) == {}
    history.final = {"k1": 2, "k2": 1}
    assert ("wrong-final-value", "resource") in findings(history)


def test_a_value_that_no_read_can_have_led_to_is_the_resource_s_fault() -> None:
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 1).write("c2", 3)
    assert ("impossible-value", "resource") in findings(history)
    history = History().section("c1", 0, 10).section("c2", 20, 30).write("c1", 2).write("c2", 3)
    assert ("impossible-value", "resource") in findings(history), "the first value of a counter is 1"


def test_two_lives_of_a_client_are_kept_apart_by_their_sections() -> None:
    history = History().section("c1", 0, None, life=1).section("c1", 120, 140, life=2, number=2)
    history.write("c1", 1, life=1).write("c1", 2, number=2, life=2)
    assert findings(history.end("c1", "killed", 10)) == {}


def test_losses_of_different_blame_are_found_side_by_side() -> None:
    history = overlapping().section("c1", 100, 110, key="k2", number=2).section("c2", 120, 130, key="k2", number=2)
    history.write("c1", 1, key="k2", number=2).write("c2", 1, key="k2", number=2)
    assert {kind: finding.count for kind, finding in findings(history).items()} == {
        ("lost-update", "lock"): 1,
        ("lost-update", "harness"): 1,
    }


def test_a_write_is_known_by_its_value_too() -> None:
    history = clean()
    history.writes[1].value = 1
    assert ("unrecorded-write", "resource") in findings(history)


def test_of_a_section_with_several_writes_each_is_known_by_its_value() -> None:
    """Values that one table has and the other has not, so that they must not run into the next section's."""
    history = History().section("c1", 0, 10).section("c1", 20, 30, number=2)
    history.write("c1", 3, told=False).write("c1", 4, told=False)
    history.op("c1", "write", "ok", 2, 25, 26, value=2)
    assert findings(history)["unrecorded-write", "resource"].count == 1


def test_a_value_below_all_accepted_ones_is_not_taken_for_a_value_of_the_section_before() -> None:
    history = History().section("c1", 0, 10).section("c1", 20, 30, number=2)
    history.write("c1", 5).write("c1", 6, told=False)
    history.op("c1", "write", "ok", 2, 25, 26, value=3)
    assert findings(history)["unrecorded-write", "resource"].count == 1


def test_the_earlier_of_two_writes_of_a_section_may_be_the_acknowledged_one() -> None:
    history = History().section("c1", 0, 10).write("c1", 1).write("c1", 2, told=False)
    assert findings(history) == {}


def test_one_is_counted_in_the_singular(golden: Golden) -> None:
    history = clean()
    texts = []
    for _ in range(2):
        history.writes.pop()
        texts.append(findings(history)["unrecorded-write", "resource"].text)
    golden("\n".join(texts))


def test_values_that_do_not_fit_beside_each_other_are_compared_all_the_same() -> None:
    """A hundred keys times the largest value that a record may hold do not fit into 64 bits."""
    history = History(keys=100)
    for key in range(100):
        history.section("c1", 100 * key + 1, 100 * key + 50, number=key + 1, key=f"k{key}")
        history.write("c1", 2**60, number=key + 1, at=100 * key + 5, key=f"k{key}")
    (finding,) = check(history.recorded()).findings
    assert (finding.kind, finding.blame, finding.count) == ("impossible-value", "resource", 100)


def test_squeezed_numbers_keep_their_order_and_which_are_one_apart() -> None:
    values = np.array([2**60, -5, 0, 1, 7, 2**60 - 1, 8, 7, -(2**60)])
    small = squeezed(values)
    assert small.tolist() == [7, -2, 0, 1, 3, 6, 4, 3, -4]
    assert (np.argsort(small, kind="stable") == np.argsort(values, kind="stable")).all()
