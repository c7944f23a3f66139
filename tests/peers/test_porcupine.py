"""The checkers and Porcupine, a linearizability checker by other authors, agree on random histories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.history import Timeline
from harness.checkers import counter, exclusion, fencing
from harness.config import RunConfig
from harness.export import porcupine
from harness.export.formats import Choice, Window
from harness.history.overlaps import BLAMES, OverlapBlame, count_overlaps, overlapping_pairs
from harness.history.recorded import Recorded
from harness.history.sections import derive_sections
from harness.store.columns import ops_frame, writes_frame
from harness.store.tables import load_recorded
from tests.needs import find_go
from tests.peers.random_histories import QUESTIONS, Plan, Recording, histories, questions, record
from tests.peers.recorded import unpack, with_manifest

AT_ONCE = 21
BATCHES = 100
TIMEOUT_MS = 2_000
PROGRAM = Path(__file__).parent / "porcupine"
pytestmark = pytest.mark.needs("go")


class Peer:
    """The Go program, one process for many histories. `spent_ns`: the time that Porcupine itself took."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.spent_ns = 0

    def ask(self, asked: list[tuple[str, list[dict[str, object]]]]) -> list[str]:
        """`Ok`, `Illegal` or `Unknown` (out of time) for each (model, operations)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answers = []
        for number, (model, ops) in enumerate(asked):
            line = json.dumps({"id": number, "model": model, "ops": ops, "timeout_ms": TIMEOUT_MS})
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
            assert answer["id"] == number
            self.spent_ns += answer["ns"]
            answers.append(answer["result"])
        return answers

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    go = find_go()
    assert go is not None
    program = tmp_path_factory.mktemp("porcupine") / "check"
    built = subprocess.run(
        [go, "build", "-mod=readonly", "-o", program, "."],
        cwd=PROGRAM,
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    peer = Peer(program)
    yield peer
    peer.close()


def recorded(made: list[Recording]) -> Recorded:
    """All the histories as one run; each has its own key and clients."""
    ops = ops_frame([(client, life, ops) for one in made for (client, life), ops in one.ops.items()])
    ends = [end for one in made for end in one.ends]
    return Recorded(
        config=RunConfig(seed=1, nemesis="none"),
        timeline=Timeline(0, 0, 0, 0),
        ops=ops,
        sections=derive_sections(ops, ends, ()),
        writes=writes_frame(one.writes for one in made),
        faults=(),
        ends=tuple(ends),
        planned_faults=0,
        final_values=None,
    )


def our_answers(run: Recorded, keys: list[str]) -> dict[str, list[bool]]:
    """For each key whether it is fine, by question. Every checker judges all keys together."""
    pairs = overlapping_pairs(run.sections)
    names = run.sections["key"].astype(str)
    blamed: dict[str, set[str]] = {key: set() for key in keys}
    for row, blame in zip(pairs.later.tolist(), pairs.blame.tolist(), strict=True):
        blamed[names.iloc[row]].add(BLAMES[blame])
    counts = {blame: int((pairs.blame == place).sum()) for place, blame in enumerate(BLAMES)}
    assert exclusion.check(run).figures.overlaps == counts
    unordered = set(names.iloc[fencing._disorder(run.sections, run.sections_by_key)])
    stale = set(run.writes["key"].astype(str).iloc[fencing._stale(run).row])
    writes = counter._Writes.of(run.writes, run.writes_by_key)
    losers, _ = writes.lost()
    lost = set(run.writes["key"].astype(str).iloc[losers])
    return {
        "section": [not blamed[key] for key in keys],
        "possible": [not blamed[key] & {"lock", "undecided"} for key in keys],
        "certain": ["lock" not in blamed[key] for key in keys],
        "fenced": [not blamed[key] and key not in unordered for key in keys],
        "fence": [key not in stale for key in keys],
        "counter": [key not in lost for key in keys],
    }


def compare(peer: Peer, batch: list[list[Plan]]) -> tuple[list[str], list[str]]:
    """Each question with the peer's answer, and the disagreements as text."""
    keys = [f"k{number}" for number in range(len(batch))]
    made = [record(plans, key) for plans, key in zip(batch, keys, strict=True)]
    ours = our_answers(recorded(made), keys)
    theirs = peer.ask([question for one in made for question in questions(one)])
    answers, apart = [], []
    for number in range(len(batch)):
        for place, question in enumerate(QUESTIONS):
            answer = theirs[number * len(QUESTIONS) + place]
            answers.append(f"{question} {answer}")
            if answer != "Unknown" and (answer == "Ok") != ours[question][number]:
                apart.append(f"{question}: Porcupine says {answer}, the checker says {ours[question][number]}")
    return answers, apart


def test_both_agree_on_two_thousand_random_histories(peer: Peer) -> None:
    tally = Counter[str]()

    @settings(
        max_examples=BATCHES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(st.lists(histories, min_size=AT_ONCE, max_size=AT_ONCE))
    def agree(batch: list[list[Plan]]) -> None:
        answers, apart = compare(peer, batch)
        tally["histories"] += len(batch)
        tally.update(answers)
        assert not apart

    agree()
    assert tally["histories"] >= 2_000
    for question in QUESTIONS:
        fine, wrong = tally[f"{question} Ok"], tally[f"{question} Illegal"]
        assert fine + wrong >= 0.99 * tally["histories"]
        assert min(fine, wrong) >= 0.02 * tally["histories"], question


def test_an_exported_history_gets_the_same_answers(peer: Peer) -> None:
    """What `fencepost export --to porcupine` writes, read from the file by the peer, of histories that are correct and
    wrong under each reading of a section."""
    tally = Counter[str]()

    @settings(max_examples=5, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(st.lists(histories, min_size=AT_ONCE, max_size=AT_ONCE))
    def agree(batch: list[list[Plan]]) -> None:
        made = [record(plans, f"k{number}") for number, plans in enumerate(batch)]
        run, expected = recorded(made), peer.ask([question for one in made for question in questions(one)])
        for place, window in enumerate(get_args(Window)):
            exported = b"".join(porcupine.write(run, Choice(window=window))).splitlines()
            asked = {line["key"]: line["ops"] for line in map(json.loads, exported)}
            answers = peer.ask([("mutex", asked[f"k{number}"]) for number in range(len(made))])
            assert answers == expected[place :: len(QUESTIONS)]
            tally.update(f"{window} {answer}" for answer in answers)

    agree()
    for window in get_args(Window):
        assert tally[f"{window} Ok"] > 0
        assert tally[f"{window} Illegal"] > 0


@pytest.mark.parametrize("name", ["control-quorum-of-two-partition-pause-16", "redlock-ng-partition-3"])
def test_an_exported_run_is_judged_as_here(peer: Peer, name: str, tmp_path: Path) -> None:
    """Whole runs, from their folder to the peer's answer."""
    run = load_recorded(with_manifest(unpack(tmp_path) / name, tmp_path / "run"))
    blames = exclusion.check(run).figures.overlaps
    faults: dict[Window, set[OverlapBlame]] = {
        "section": {"lock", "undecided", "client"},
        "possible": {"lock", "undecided"},
        "certain": {"lock"},
    }
    for window, whose in faults.items():
        exported = b"".join(porcupine.write(run, Choice(window=window))).splitlines()
        answers = peer.ask([(line["model"], line["ops"]) for line in map(json.loads, exported)])
        overlaps = any(blames[blame] for blame in whose)
        assert ("Illegal" if overlaps else "Ok") in answers
        assert set(answers) <= ({"Illegal", "Ok"} if overlaps else {"Ok"})


def plan(client: int, gap: int, length: int = 3, **more: object) -> Plan:
    usual = {"asked": 2, "told": 8, "unsure": 0, "ending": "ok", "before": "", "token_step": 1, "wrote": 1}
    return Plan(client, gap, length=length, **usual | more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plans", "wrong"),
    [
        ([plan(1, 1), plan(2, 1)], set()),
        ([plan(1, 1), plan(2, 0)], {"section", "possible", "certain", "fenced"}),
        ([plan(1, 1), plan(1, 0)], set()),
        ([plan(1, 1, told=1), plan(2, 0)], {"section", "fenced"}),
        ([plan(1, 1, told=4, unsure=2), plan(2, 0)], {"section", "possible", "fenced"}),
        ([plan(1, 1, ending="info"), plan(2, 1, before="info")], set()),
        ([plan(1, 1, ending="killed"), plan(1, 0)], {"section", "possible", "certain", "fenced"}),
        ([plan(1, 1), plan(2, 1, token_step=0)], {"fenced"}),
        ([plan(1, 1), plan(2, 1, token_step=-1)], {"fenced", "fence"}),
        ([plan(1, 1), plan(2, 1, wrote=0)], {"counter"}),
    ],
    ids=[
        "one after the other",
        "they share a moment",
        "one client shares a moment with itself",
        "the earlier one had outlived its lease",
        "perhaps it had",
        "a lost release, a lost acquire",
        "the next life comes in as the last one is killed",
        "a token twice",
        "a token that shrinks",
        "a lost update",
    ],
)
def test_both_find_exactly_what_is_wrong(peer: Peer, plans: list[Plan], wrong: set[str]) -> None:
    made = record(plans, "k0")
    theirs = dict(zip(QUESTIONS, peer.ask(list(questions(made))), strict=True))
    assert {question for question, answer in theirs.items() if answer == "Illegal"} == wrong
    ours = our_answers(recorded([made]), ["k0"])
    assert {question for question, (fine,) in ours.items() if not fine} == wrong


def test_the_checkers_are_faster_than_the_peer(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """The same histories in one run: a thousand of six sections."""
    plans = [[plan(1 + n % 3, 1, length=n % 5) for n in range(6)] for _ in range(1_000)]
    made = [record(some, f"k{number}") for number, some in enumerate(plans)]
    before = peer.spent_ns
    answers = peer.ask([("mutex", next(questions(one))[1]) for one in made])
    theirs_ns = peer.spent_ns - before
    sections = recorded(made).sections
    tries_ns = []
    for _ in range(3):  # a busy machine makes single ones late
        began = time.perf_counter_ns()
        found = count_overlaps(sections)
        tries_ns.append(time.perf_counter_ns() - began)
        assert found == {}
    ours_ns = min(tries_ns)
    assert set(answers) == {"Ok"}
    took = f"Porcupine {theirs_ns / 1e6:.1f} ms, the exclusion checker {ours_ns / 1e6:.1f} ms"
    ratio = f"{took}: {theirs_ns / ours_ns:.0f} times as long"
    with capsys.disabled():
        sys.stdout.write(f"\n{ratio}\n")
    assert ours_ns < theirs_ns
