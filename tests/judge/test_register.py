"""Which writes of a register were lost, through whom, and whether the resource can be believed."""

from __future__ import annotations

import pytest

from harness.checkers.judge import judge
from harness.checkers.register import Figures, check
from harness.verdict import Finding
from tests.golden import Golden
from tests.judge.histories import History


class Register(History):
    """Writes that say what their client had read and what they replaced."""

    def put(self, client: str, value: int, *, read: int, replaced: int | None = None, **more: object) -> Register:
        """`replaced`: by default what the key's last write left."""
        self.write(client, value, **more)  # type: ignore[arg-type]
        before = [write.value for write in self.writes[:-1] if write.key == self.writes[-1].key]
        write = self.writes[-1]
        write.read, write.replaced = read, (before or [0])[-1] if replaced is None else replaced
        return self


def findings(history: History) -> dict[tuple[str, str], Finding]:
    return {(finding.kind, finding.blame): finding for finding in check(history.recorded()).findings}


def lost(history: History) -> list[tuple[object, object]]:
    """The values that were lost, and the values by which."""
    found = [each for each in check(history.recorded()).findings if each.kind == "lost-update"]
    return [(e["lost"]["value"], e["by"]["value"]) for each in found for e in each.examples]  # type: ignore[index]


def three(until: float = 100) -> Register:
    history = Register(clients=3)
    for number, client in enumerate(("c1", "c2", "c3")):
        history.section(client, 10 * number, until)
    return history


def test_writes_that_build_on_each_other_lose_nothing() -> None:
    history = Register().section("c1", 0, 10).section("c2", 20, 30)
    answer = check(history.put("c1", 7, read=0).put("c2", 3, read=7).recorded())
    assert answer.findings == answer.unknown == ()
    assert answer.figures == Figures(
        acknowledged=2, accepted=2, lost=0, lost_unacknowledged=0, final={"k1": 3}, complete=True, unseen=0
    )


def test_two_that_read_the_same_lose_the_first_one() -> None:
    history = Register().section("c1", 0, 50).section("c2", 10, 60).put("c1", 1, read=0).put("c2", 2, read=0)
    finding = findings(history)["lost-update", "lock"]
    assert (finding.count, finding.breaks) == (1, "data")
    assert lost(history) == [(1, 2)]
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    assert (figures.lost, figures.unseen) == (1, 1)


def test_a_late_write_loses_everything_built_since() -> None:
    history = three().put("c2", 2, read=0).put("c3", 3, read=2).put("c1", 1, read=0)
    assert sorted(lost(history)) == [(2, 1), (3, 1)]


def test_what_was_lost_already_is_not_lost_again() -> None:
    history = three().put("c1", 1, read=0).put("c2", 2, read=0).put("c3", 3, read=0)
    assert sorted(lost(history)) == [(1, 2), (2, 3)]


def test_a_value_that_a_late_write_brings_back_is_not_lost() -> None:
    history = three().put("c1", 1, read=0).put("c2", 2, read=0).put("c3", 3, read=1)
    assert lost(history) == [(2, 3)]


def test_the_overlap_s_blame_is_the_loss_s_blame() -> None:
    history = Register().section("c1", 0, 500).section("c2", 120, 140)
    assert set(findings(history.put("c2", 1, read=0).put("c1", 2, read=0))) == {("lost-update", "client")}


def test_a_loss_without_any_overlap_breaks_everything_because_the_harness_must_be_wrong() -> None:
    history = Register().section("c1", 0, 10).section("c2", 20, 30).put("c1", 1, read=0).put("c2", 2, read=0)
    assert findings(history)["lost-update", "harness"].breaks == "record"


def test_a_write_that_nobody_was_told_of_is_listed_apart() -> None:
    history = three().put("c1", 1, read=0, told=False).put("c2", 2, read=0)
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    assert answer.findings == ()
    assert (answer.figures.lost, answer.figures.lost_unacknowledged) == (0, 1)


def test_keys_are_counted_apart() -> None:
    history = Register().section("c1", 0, 10, key="k1").section("c2", 5, 30, key="k2")
    assert findings(history.put("c1", 1, read=0, key="k1").put("c2", 2, read=0, key="k2")) == {}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"read": 5}, "1 write was made after reading a value that no earlier write had left"),
        ({"read": 1, "replaced": 9}, "1 write was accepted that did not replace what the write before had left"),
    ],
)
def test_a_record_that_cannot_be_is_the_resource_s_fault(second: dict[str, int], says: str) -> None:
    history = Register().section("c1", 0, 10).section("c2", 20, 30).put("c1", 1, read=0).put("c2", 2, **second)
    found = findings(history)
    assert set(found) == {("impossible-value", "resource")}
    finding = found["impossible-value", "resource"]
    assert (finding.text, finding.breaks) == (says, "record")


def test_a_last_read_that_differs_and_a_missing_write_are_the_resource_s_fault() -> None:
    history = Register().section("c1", 0, 10).put("c1", 1, read=0)
    history.final = {"k1": 4}
    assert set(findings(history)) == {("wrong-final-value", "resource")}
    history.writes.clear()
    history.final = {"k1": 0}
    assert set(findings(history)) == {("unrecorded-write", "resource")}


def test_without_a_last_read_losses_cannot_be_ruled_out(golden: Golden) -> None:
    history = Register().section("c1", 0, 10).put("c1", 1, read=0)
    history.final_is_last_write = False
    golden("\n".join(check(history.recorded()).unknown))


def test_one_loss_convicts_without_a_last_read_too() -> None:
    history = Register().section("c1", 0, 50).section("c2", 10, 60).put("c1", 1, read=0).put("c2", 2, read=0)
    history.final_is_last_write = False
    answer = check(history.recorded())
    assert ([(f.kind, f.count) for f in answer.findings], answer.unknown) == ([("lost-update", 1)], ())


def test_only_a_workload_that_names_a_checker_is_judged_by_it() -> None:
    def judged(workload: str) -> set[str]:
        history = Register(workload=workload).section("c1", 0, 10).put("c1", 1, read=0)
        return set(judge(history.recorded()).figures)

    named = {"counter", "register", "fencing", "contention"}
    assert judged("fenced-counter") & named == {"counter", "fencing"}
    assert judged("register") & named == {"register", "fencing"}
    assert judged("acquire-release") & named == {"contention"}
    assert judged("register") - named == judged("acquire-release") - named != set()


def test_a_check_of_unique_values_promises_no_order_so_a_write_out_of_order_is_not_stale() -> None:
    def kinds(fencing: str) -> set[str]:
        history = Register(workload="register", fencing=fencing).section("c1", 0, 500).section("c2", 120, 140)
        history.put("c2", 1, read=0).put("c1", 2, read=1)
        return {finding.kind for finding in judge(history.recorded()).findings}

    assert "stale-write-accepted" in kinds("none")
    assert "stale-write-accepted" not in kinds("unique")
