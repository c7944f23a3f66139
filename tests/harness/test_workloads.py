"""Workloads in real runs: a sound lock passes, a broken one is caught, and a check of the data prevents the loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fencepost
from harness.checkers.kept_out import STARVED_GRANTS
from harness.cli.main import run
from tests.harness import runs
from tests.harness.second_tries import first_that_counts


def judged(folder: Path, *arguments: str, expect: int) -> dict[str, Any]:
    """The verdict of a short run."""
    code, out, err = runs.fencepost(folder, *runs.short_run(*arguments))
    assert code == expect, out + err
    verdict: dict[str, Any] = json.loads((runs.only_run(folder) / "verdict.json").read_text())
    return verdict


def kinds(verdict: dict[str, Any]) -> set[tuple[str, str]]:
    return {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}


OVERSLEEPING = ("--nemesis", "none", "--ttl", "60ms", "--node-timeout", "20ms", "--hold", "uniform:20ms-140ms")
"""Clients often outlive their leases and write late."""


def test_without_a_check_a_register_loses_what_late_clients_overwrite(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "--workload", "register", "--require", "data", *OVERSLEEPING, expect=1)
    assert ("lost-update", "client") in kinds(verdict)
    assert verdict["figures"]["register"]["unseen"] > 0


def test_with_a_check_and_set_under_the_lock_s_unique_value_nothing_is_lost(tmp_path: Path) -> None:
    given = ("--workload", "register", "--fencing", "unique", "--require", "data")
    found = set[tuple[str, str]]()
    acknowledged = rejected = 0
    for seed in range(7, 12):
        (folder := tmp_path / str(seed)).mkdir()
        verdict = judged(folder, *given, *OVERSLEEPING, "--seed", str(seed), expect=0)
        register = verdict["figures"]["register"]
        assert register["lost"] == register["unseen"] == 0
        found |= kinds(verdict)
        rejected += verdict["figures"]["fencing"]["stale_writes_rejected"]
        acknowledged += register["acknowledged"]
        if acknowledged > 10:  # a busy machine may not get so far in one run
            break
    assert acknowledged > 10
    assert ("overlap", "client") in found, "late clients were there"
    assert rejected > 0


@pytest.mark.parametrize("lock", ["no-op", "control-no-unique-value"])
def test_a_check_of_unique_values_is_worthless_with_a_lock_that_has_none(lock: str, tmp_path: Path) -> None:
    given = ("--workload", "register", "--fencing", "unique", "--require", "data", "--lock", lock)
    verdict = judged(tmp_path, *given, *OVERSLEEPING, expect=1)
    assert "lost-update" in {finding["kind"] for finding in verdict["findings"]}


def test_a_broken_lock_is_caught_without_any_data(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "--workload", "acquire-release", "--nemesis", "none", "--lock", "no-op", expect=1)
    assert ("overlap", "lock") in kinds(verdict)
    assert not {"counter", "fencing", "register"} & set(verdict["figures"])


def test_acquire_release_shows_how_the_lock_is_passed_on(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "--workload", "acquire-release", "--nemesis", "partition", expect=0)
    contention = verdict["figures"]["contention"]
    assert [share["client"] for share in contention["shares"]] == ["c1", "c2", "c3"]
    assert contention["attempts"]["count"] == sum(share["sections"] for share in contention["shares"]) > 10
    assert contention["handover_ms"]["count"] > 0
    page = (runs.only_run(tmp_path) / "report.html").read_text()
    assert "Contention" in page
    assert "counter" not in page


DEFERENTIAL = '''
import time

from workloads.connection import pack
from workloads.locks.redlock import Redlock


class Deferential(Redlock):
    """Whoever was refused tries again only after the lock has been free for 100 ms. Somebody else is always quicker."""

    refused = False

    def acquire(self, key, ttl_ms):
        if self.refused and any(self.is_taken(key) for _ in range(50)):
            return None
        lease = super().acquire(key, ttl_ms)
        self.refused = lease is None
        return lease

    def is_taken(self, key):
        time.sleep(0.002)
        return 1 in self._ask(pack("EXISTS", key))
'''


def test_a_lock_that_starves_its_clients_is_caught_without_any_data(tmp_path: Path) -> None:
    given = ("--workload", "acquire-release", "--nemesis", "none", "--require", "liveness", "--duration", "5s")
    load = ("--lock", "my_lock:Deferential", "--ttl", "200ms", "--node-timeout", "20ms", "--hold", "5ms")

    def play(folder: Path) -> tuple[tuple[int, str, str], fencepost.Run]:
        (folder / "my_lock.py").write_text(DEFERENTIAL)
        ended = runs.fencepost(folder, *runs.short_run(*given, *load, "--nodes", "1"))
        return ended, fencepost.load(runs.only_run(folder))

    # Fewer sections cannot starve anybody: the machine was too busy.
    (code, out, err), played = first_that_counts(
        tmp_path, play, lambda played: len(played[1].sections) >= 3 * STARVED_GRANTS
    )
    assert code == 1, out + err
    assert ("starved-client", "lock") in {(finding.kind, finding.blame) for finding in played.verdict.findings}
    [hungry, *_] = played.verdict.figures["kept_out"].starved
    assert hungry in {"c1", "c2", "c3"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workload", "regster"], "no workload is named 'regster': did you mean register?"),
        (["--workload", "acquire-release", "--fencing", "all"], "--fencing all means nothing to --workload acquire-re"),
        (["--fencing", "unique"], "--fencing unique means nothing to --workload fenced-counter"),
        (["--workload", "acquire-release", "--require", "data"], "--require data means nothing to --workload acquire"),
    ],
)
def test_options_that_mean_nothing_to_a_workload_are_one_line_before_anything_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["test", *arguments]) == 254
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert says in err
