"""Is `explain` right about the cause? The table, from runs that are on record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from harness.campaign.folder import RunLine
from harness.campaign.measure import Blamed, Figures
from harness.explain.causes import IN_WORDS
from harness.mutants.explained import cells, conclusion, said_of
from workloads.mutants import MUTANTS

FREES = MUTANTS["frees without comparing"]
TOLD: Any = {
    "overlap",
    "unavailable-while-free",
    "waits-for-free-lock",
    "sleeps-unsubscribed",
    "sent-late",
    "renewal-missed",
    "release-without-effect",
    "late-grant",
    "lease-without-majority",
    "changed-another-clients-key",
    "prolonged-another-clients-key",
    "waits-without-entry",
    "no-recovery",
}


def line(cause: str | None, why: str = "why", kind: str = "overlap") -> RunLine:
    figures = Figures(
        sections=9, overlaps={}, node_outages=0, node_outages_hit=0, load_s=1, grants=9, reachable_s=1, acquire={},
        blamed=(Blamed("lease-lost-early", 1.0, "text", "unknown", "other"), Blamed(kind, 1.0, "text", cause, why)),
    )  # fmt: skip
    return RunLine(cell="any", seed=1, folder="run", verdict="violation", took_s=1.0, figures=figures)


def test_what_was_said_is_counted_and_a_right_sentence_is_shown() -> None:
    said = said_of(FREES, [line("unknown", "unclear"), line("deleted", "c1 did it"), line("deleted", "c2 did it")])
    assert said is not None
    assert (said.should, said.causes, said.why) == (("deleted",), {"deleted": 2, "unknown": 1}, "c1 did it")
    assert not said.is_right
    assert said_of(FREES, [line("unknown", "unclear")]).why == "unclear"  # type: ignore[union-attr]


def test_the_right_cause_in_every_run_is_right() -> None:
    said = said_of(FREES, [line("deleted"), line("deleted")])
    assert said is not None
    assert said.is_right


def test_runs_without_the_finding_say_nothing() -> None:
    assert said_of(FREES, [line("deleted", kind="unavailable-while-free")]) is None
    assert said_of(FREES, []) is None


def test_a_finding_that_nothing_explains_speaks_for_itself() -> None:
    said = said_of(MUTANTS["forgets the drift"], [line(None, why="", kind="no-drift-allowance")])
    assert said is not None
    assert (said.causes, said.why, said.is_right) == ({"": 1}, "text", True)


def test_the_table_says_what_it_should_say_and_what_it_says() -> None:
    said = said_of(FREES, [line("deleted", "c1 did it"), line(None)])
    assert said is not None
    assert re.findall(r"\d+ of \d+", conclusion([("", said)]))[0] == "0 of 1"
    ((name, _, says),) = cells([("frees without comparing", said)])
    assert name == "frees without comparing"
    assert says == f"{IN_WORDS['deleted']}: 1; what the finding says: 1"
    assert said.why == "c1 did it"
    assert conclusion([]) == ""


def test_another_finding_that_names_it_has_a_cause_of_its_own() -> None:
    mutant, own = MUTANTS["prolongs another's key"], "changed-another-clients-key"
    both = line("not prolonged", "c2 had none", "lease-outlasts-keys"), line("prolonged", "c1 did it", own)
    said = said_of(mutant, both)
    assert said is not None
    assert (said.should, said.is_right) == (("prolonged", "not prolonged"), True)
    assert cells([("", said)])[0][1] == f"{IN_WORDS['prolonged']} or {IN_WORDS['not prolonged']}"
    wrong = said_of(mutant, [*both, line("not prolonged", kind=own)])
    assert wrong is not None
    assert (wrong.causes, wrong.is_right) == ({"not prolonged": 2, "prolonged": 1}, False)
    assert said_of(mutant, [line("deleted", kind="lease-outlasts-keys")]) is None, "it names something else"


def test_the_declared_finding_is_explained_rather_than_another_one_that_names_it() -> None:
    figures = line("another reply", "c1 had none", "lease-without-majority").figures
    assert figures is not None
    overlap = Blamed("overlap", 0.5, "text", "another reply", "c2 had two")
    run = replace(line(None), figures=replace(figures, blamed=(overlap, *figures.blamed)))
    said = said_of(MUTANTS["a late reply counts"], [run])
    assert said is not None
    assert said.why == "c1 had none"


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_declares_a_cause_if_its_finding_does_not_say_all(name: str) -> None:
    mutant = MUTANTS[name]
    may_be = {
        "lease-outlasts-keys": ("", "not prolonged", "short TTL"),
        "keys-left-behind": ("", "denied", "not undone"),
        "lost-lease-extended": ("", "set by an extension"),
        "orphan-outlasts-ttl": ("", "no expiry", "renewed unheld"),
        "taken-for-good": ("never given back",),
        "place-outlasts-lease": ("place kept",),
        "permits-unused": ("permits unused",),
        "place-taken-twice": ("counted twice",),
    }
    assert mutant.cause in (IN_WORDS if mutant.finding in TOLD else may_be.get(mutant.finding, ("",)))
    assert all(cause in IN_WORDS for kind, cause in mutant.also.items() if kind != "lost-lease-extended")
