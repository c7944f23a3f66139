"""To which worker each run is given, and what becomes of it when something goes wrong there; with workers on paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from fencepost.errors import BrokenEnvironmentError
from harness.campaign import side_by_side
from harness.campaign.concurrency import FindingPace, Pace
from harness.campaign.equipment import Equipment, itself
from harness.campaign.one_run import Made, Order
from harness.campaign.player_process import PlayerDiedError
from harness.campaign.side_by_side import Workers
from harness.campaign.worker import Refused, why_not
from harness.campaign.workers_view import Showing
from harness.run.messages import Failed, decode, encode
from tests.campaign import made

EQUIPMENT = Equipment("1.0", "abc", "3.11", {"redis": "redis 8.2"})
Answer = Made | Refused | Exception | str | None
"""What a worker says of a run; a word is a status of Dask's that no answer follows."""


class Promise:
    """A future whose outcome is known."""

    key = "play-1"

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.status = answer if isinstance(answer, str) else "error" if isinstance(answer, Exception) else "finished"
        self.is_cancelled = False

    def done(self) -> bool:
        return self.status != "pending"

    def result(self, timeout: float) -> tuple[bytes, bytes]:
        return encode(self._answer), b""

    def exception(self) -> Answer:
        return self._answer

    def add_done_callback(self, call: Callable[[object], None]) -> None:
        if self.done():
            call(self)

    def cancel(self) -> None:
        self.is_cancelled = True


class Paper:
    """A Dask client. `answer`: what a worker, by its name, says of a run. `present`: the workers, which may be changed
    meanwhile."""

    status = "running"

    def __init__(self, answer: Callable[[str, Order], Answer], *present: str) -> None:
        self.present = list(present)
        self.given: list[tuple[str, str]] = []
        self.promises: list[Promise] = []
        self.subscribed = 0
        self.taken_down: list[str] = []
        """The workers that were told to end what is left of the runs."""
        self._answer = answer

    def subscribe_topic(self, topic: str, handler: object) -> None:
        self.subscribed += 1

    @property
    def scheduler(self) -> Self:
        return self

    def identity(self) -> Mapping[str, Any]:
        return {"workers": {f"tcp://{name}": {"name": name} for name in self.present}}

    def sync(self, asked: Callable[[], object]) -> object:
        return asked()

    def submit(
        self, _: object, order: bytes, limit_s: float, wanted: bytes, *, workers: list[str], pure: bool
    ) -> Promise:
        (name,) = (address.removeprefix("tcp://") for address in workers)
        asked = decode(order, Order)
        self.given.append((name, asked.cell))
        self.promises.append(Promise(self._answer(name, asked)))
        return self.promises[-1]

    def cancel(self, futures: object, *, force: bool) -> None:
        pass

    def run(self, *_: object, workers: list[str], on_error: str) -> None:
        self.taken_down += [address.removeprefix("tcp://") for address in workers]


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def update(self, shown: Showing) -> None:
        pass

    def say(self, line: str) -> None:
        self.lines.append(line)


def order(cell: str) -> Order:
    return Order(cell=cell, seed=1, words=(), results="", revision="r", at_once=2)


def finished(of: Order) -> Made:
    return Made(made.line(of.cell, of.seed))


def broken(text: str) -> Made:
    return Made(failure=Failed("environment", text))


def played(paper: Paper, *cells: str) -> tuple[dict[str, Made], list[str]]:
    told = Told()
    workers = Workers(paper, EQUIPMENT, told, Pace(9), results=Path())  # type: ignore[arg-type]
    outcomes = workers.play([order(cell) for cell in cells], lambda _: 60.0, lambda: False)
    return {of.cell: outcome for of, outcome in outcomes}, told.lines


def test_no_worker_has_two_runs_and_no_more_work_than_wanted() -> None:
    paper = Paper(lambda name, of: "pending" if name == "slow" else finished(of), "slow", "a", "b")
    told = Told()
    workers = Workers(paper, EQUIPMENT, told, Pace(2))  # type: ignore[arg-type]
    outcomes = workers.play([order(cell) for cell in "uvwxyz"], lambda _: 60.0, lambda: len(paper.given) >= 5)
    assert len(list(outcomes)) >= 3
    assert [name for name, _ in paper.given].count("slow") == 1
    assert {name for name, _ in paper.given} == {"slow", "a"}, "two at a time"


def test_a_worker_that_refuses_is_asked_once_and_named() -> None:
    paper = Paper(lambda name, of: Refused("its Python is 3.9") if name == "old" else finished(of), "old", "new")
    outcomes, told = played(paper, "x", "y", "z")
    assert sorted(outcomes) == ["x", "y", "z"]
    assert [name for name, _ in paper.given].count("old") == 1
    (line,) = told
    assert line.startswith("worker old ")
    assert "Python is 3.9" in line


def test_a_worker_without_fencepost_is_refused() -> None:
    paper = Paper(lambda name, of: ModuleNotFoundError("No module named 'harness'"), "bare")
    with pytest.raises(BrokenEnvironmentError, match="no worker can make these runs: worker bare: it cannot import"):
        played(paper, "x")


def test_a_run_that_breaks_off_is_given_to_another_worker_and_a_sick_worker_gets_no_more() -> None:
    paper = Paper(lambda name, of: broken("no space left") if name == "full" else finished(of), "full", "sound")
    outcomes, told = played(paper, *"uvwxyz")
    assert all(outcome.failure is None for outcome in outcomes.values())
    assert len(outcomes) == 6
    assert [name for name, _ in paper.given].count("full") == 2
    assert told[-1].startswith("worker full is given no runs")
    assert told[-1].endswith("no space left")


def test_a_run_that_breaks_off_everywhere_costs_no_worker() -> None:
    paper = Paper(lambda name, of: broken("a broken lock") if of.cell == "x" else finished(of), "a", "b")
    outcomes, told = played(paper, *"xuvwyz")
    assert [cell for cell, outcome in outcomes.items() if outcome.failure is not None] == ["x"]
    assert not any("is given no runs" in line for line in told)
    assert {name for name, cell in paper.given if cell == "x"} == {"a", "b"}


def test_the_only_worker_is_not_blamed_for_what_breaks_off() -> None:
    outcomes, told = played(Paper(lambda name, of: broken("no space left"), "one"), "x")
    assert outcomes["x"].failure == Failed("environment", "no space left")
    assert told == []


def test_what_is_wrong_with_the_run_itself_is_not_tried_elsewhere() -> None:
    paper = Paper(lambda name, of: Made(failure=Failed("internal", "a bug")), "a", "b")
    assert played(paper, "x")[0]["x"].failure == Failed("internal", "a bug")
    assert len(paper.given) == 1


def test_a_run_whose_worker_always_dies_is_given_up() -> None:
    paper = Paper(lambda name, of: PlayerDiedError("killed") if of.cell == "x" else finished(of), "a", "b")
    outcomes, _ = played(paper, "x", "y")
    failure = outcomes["x"].failure
    assert failure is not None
    assert failure.text.endswith("3 times (killed)")
    assert outcomes["y"].failure is None
    assert [cell for _, cell in paper.given].count("x") == 3


def test_a_run_whose_worker_is_gone_is_given_to_another_and_never_made_behind_our_back() -> None:
    def answer(name: str, of: Order) -> Answer:
        if name == "a":
            paper.present = ["b"]
            return "pending"
        return finished(of)

    paper = Paper(answer, "a")
    assert played(paper, "x")[0]["x"].failure is None
    assert [name for name, _ in paper.given] == ["a", "b"]
    assert paper.promises[0].is_cancelled
    assert paper.taken_down == ["b"], "nobody waits for a worker that is gone"


def test_that_the_scheduler_was_away_counts_against_no_run() -> None:
    answers: list[Answer] = ["cancelled"] * 5
    paper = Paper(lambda name, of: answers.pop() if answers else finished(of), "a")
    assert played(paper, "x")[0]["x"].failure is None
    assert len(paper.given) == 6
    assert paper.subscribed == 6, "a scheduler that was restarted does not know who wants to see the progress"


def test_a_run_taken_down_because_its_worker_leaves_is_made_again() -> None:
    answers: list[Answer] = [Made()]
    paper = Paper(lambda name, of: answers.pop() if answers else finished(of), "a", "b")
    assert played(paper, "x")[0]["x"].line is not None


def test_without_workers_for_too_long_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "AWAY_S", 0.1)
    with pytest.raises(BrokenEnvironmentError, match="had no worker for 0 s"):
        played(Paper(lambda name, of: finished(of)), "x")


def test_a_scheduler_that_is_gone_for_good_ends_it() -> None:
    paper = Paper(lambda name, of: finished(of), "a")
    paper.status = "closed"
    with pytest.raises(BrokenEnvironmentError, match="is gone, and did not come back"):
        played(paper, "x")


def test_what_a_worker_is_called_cannot_steer_the_terminal() -> None:
    _, told = played(
        Paper(lambda name, of: Refused("\x1b[2J") if "!" in name else finished(of), "\x1b!", "a"), "x", "y"
    )
    assert told
    assert not any("\x1b" in line for line in told)


def paced(most: int, too_many: int, runs: int = 60) -> tuple[list[int], list[str]]:
    """How many runs were made at the same time, run by run, if so many disturb each other; and what was said."""

    def answer(name: str, of: Order) -> Answer:
        disturbed = ("clients woke up late",) if of.at_once >= too_many else ()
        return Made(msgspec.structs.replace(made.line(of.cell, 1, disturbed=disturbed), at_once=of.at_once))

    paper, told = Paper(answer, *(f"w{n}" for n in range(most))), Told()
    workers = Workers(paper, EQUIPMENT, told, FindingPace(most))  # type: ignore[arg-type]
    outcomes = list(workers.play([order(str(n)) for n in range(runs)], lambda _: 60.0, lambda: False))
    assert len(outcomes) == runs
    return [outcome.line.at_once for _, outcome in outcomes if outcome.line], told.lines


def test_there_are_more_runs_at_once_as_long_as_they_go_undisturbed() -> None:
    at_once, told = paced(most=8, too_many=9)
    assert [at_once.count(number) for number in (1, 2, 4)] == [2, 4, 8]
    assert set(at_once[14:]) == {8}
    assert told[-1].startswith("8 at once from here on: ")


def test_when_two_were_disturbed_it_goes_halfway_back() -> None:
    at_once, told = paced(most=8, too_many=4)
    assert set(at_once[-40:]) == {3}
    assert at_once.count(4) <= 5
    assert told[-1].startswith("3 at once from here on: ")
    assert told[-1].endswith("(clients woke up late)")


@pytest.mark.parametrize("too_many", [2, 3, 4, 5, 6, 7, 8])
def test_the_highest_number_that_goes_undisturbed_is_found(too_many: int) -> None:
    at_once, told = paced(most=8, too_many=too_many, runs=120)
    assert set(at_once[-40:]) == {too_many - 1}
    assert len(told) == len(set(told)), "nothing is tried twice"


def test_the_most_that_there_may_be_is_tried_like_any_other_number() -> None:
    at_once, told = paced(most=4, too_many=4)
    assert at_once[-1] == 3
    assert told[-1].startswith("3 at once from here on: ")


def test_runs_that_are_disturbed_even_alone_are_made_one_at_a_time() -> None:
    at_once, told = paced(most=8, too_many=1, runs=9)
    assert set(at_once) == {1}
    assert len(told) == 1
    assert told[0].startswith("1 run at a time")
    assert told[0].endswith("(clients woke up late)")


def test_no_more_at_once_than_there_are() -> None:
    assert max(paced(most=3, too_many=9)[0]) == 3


def test_of_another_version_the_options_of_a_run_are_not_even_read() -> None:
    newer = msgspec.structs.replace(order("x"), words=("--option-of-tomorrow",))
    assert "its fencepost is " in why_not(newer, EQUIPMENT)
    assert "--option-of-tomorrow" in why_not(newer, itself())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Equipment("1.1", "abc", "3.11", {"redis": "redis 8.2"}), "its fencepost is 1.1, here it is 1.0"),
        (
            Equipment("1.0", "def", "3.11", {"redis": "redis 8.2"}),
            "its fencepost 1.0 has other source files (def, here abc)",
        ),
        (Equipment("1.0", "abc", "3.12", {"redis": "redis 8.2"}), "its Python is 3.12, here it is 3.11"),
        (Equipment("1.0", "abc", "3.11", {"redis": "redis 7.4"}), "its redis is redis 7.4, here it is redis 8.2"),
    ],
)
def test_other_equipment_is_named(other: Equipment, said: str) -> None:
    assert list(EQUIPMENT.differences(other)) == [said]
    assert list(EQUIPMENT.differences(EQUIPMENT)) == []
