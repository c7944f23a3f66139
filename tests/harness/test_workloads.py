"""Workloads in real runs: a sound lock passes, a broken one is caught, and a check of the data prevents the loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import Run
from harness.cli.main import run as run_here
from harness.history.overlaps import overlapping_pairs
from tests.harness import runs
from tests.harness.second_tries import caught, spared, valid


def kinds(run: Run) -> set[tuple[str, str]]:
    return {(finding.kind, finding.blame) for finding in run.verdict.findings}


OVERSLEEPING = ("--nemesis", "none", "--ttl", "60ms", "--node-timeout", "20ms", "--hold", "uniform:20ms-140ms")
"""Clients often outlive their leases and write late."""


def test_without_a_check_a_register_loses_what_late_clients_overwrite(tmp_path: Path) -> None:
    given = runs.short_run("--workload", "register", "--require", "data", *OVERSLEEPING)
    code, said, run = caught(tmp_path, given)
    assert code == 1, said
    assert ("lost-update", "client") in kinds(run)
    assert run.verdict.figures["register"].unseen > 0


def test_with_a_check_and_set_under_the_lock_s_unique_value_nothing_is_lost(tmp_path: Path) -> None:
    given = runs.short_run("--workload", "register", "--fencing", "unique", "--require", "data", *OVERSLEEPING)
    # A busy machine may not get so far in one run.
    code, said, run = valid(tmp_path, given, late_and_others)
    assert code == 0, said
    assert late_and_others(run), said
    assert run.verdict.figures["register"].lost == run.verdict.figures["register"].unseen == 0


def late_and_others(run: Run) -> bool:
    """Whether late clients were there and were refused, and others wrote."""
    figures = run.verdict.figures
    refused = figures["fencing"].stale_writes_rejected > 0
    return ("overlap", "client") in kinds(run) and refused and figures["register"].acknowledged > 10


def test_a_check_of_unique_values_is_worthless_with_a_lock_that_has_none(tmp_path: Path) -> None:
    given = ("--workload", "register", "--fencing", "unique", "--require", "data", "--lock", "control-no-unique-value")
    code, said, run = caught(tmp_path, runs.short_run(*given, *OVERSLEEPING))
    assert code == 1, said
    assert "lost-update" in {kind for kind, _ in kinds(run)}


def test_a_broken_lock_is_caught_without_any_data(tmp_path: Path) -> None:
    given = runs.short_run("--workload", "acquire-release", "--nemesis", "none", "--lock", "no-op")
    code, said, run = caught(tmp_path, given)
    assert code == 1, said
    assert ("overlap", "lock") in kinds(run)
    assert not {"counter", "fencing", "register"} & set(run.verdict.figures)


def test_acquire_release_shows_how_the_lock_is_passed_on(tmp_path: Path) -> None:
    code, said, run = spared(tmp_path, runs.short_run("--workload", "acquire-release", "--nemesis", "partition"))
    assert code == 0, said
    contention = run.verdict.figures["contention"]
    assert [share.client for share in contention.shares] == ["c1", "c2", "c3"]
    assert contention.attempts.count == sum(share.sections for share in contention.shares) > 10
    assert contention.handover_ms.count > 0
    page = (run.path / "report.html").read_text()
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

    # A busy machine may let too few others in to say that anybody was starved.
    code, said, run = caught(tmp_path, runs.short_run(*given, *load, "--nodes", "1"), DEFERENTIAL)
    assert code == 1, said
    assert ("starved-client", "lock") in kinds(run)
    [hungry, *_] = run.verdict.figures["starvation"].starved
    assert hungry in {"c1", "c2", "c3"}


def test_a_read_write_lock_lets_readers_in_together_and_is_never_blamed(tmp_path: Path) -> None:
    given = runs.short_run("--workload", "rw-lock", "--lock", "rw-lock", "--nemesis", "partition", "--clients", "5")
    code, said, run = spared(tmp_path, given)
    assert code == 0, said
    readers = run.sections[run.sections["shared"] == 1]
    assert len(run.sections) > len(readers) > 10
    assert len(overlapping_pairs(readers.drop(columns="shared")).later) > 5, "readers were inside together"
    assert run.verdict.figures["exclusion"].overlaps["lock"] == 0


def test_a_reader_that_lets_a_writer_in_is_caught_and_explained(tmp_path: Path) -> None:
    given = ("--workload", "rw-lock", "--lock", "control-rw-lock-first-reader-out", "--nemesis", "none")
    code, said, run = caught(tmp_path, runs.short_run(*given, "--clients", "5"))
    assert code == 1, said
    assert ("overlap", "lock") in kinds(run)
    _, told, _ = runs.fencepost(tmp_path, "explain", str(run.path))
    assert "deleted the key k1#readers: in its release" in " ".join(told.split())


def test_a_leader_that_extends_its_successor_s_lease_is_caught(tmp_path: Path) -> None:
    pauses = ("--nemesis", "pause:targets=inside,interval=500ms,duration=800ms", "--ttl", "400ms", "--duration", "5s")
    given = ("--workload", "leader", "--lock", "control-extend-without-comparing", *pauses)
    code, said, run = caught(tmp_path, runs.short_run(*given))
    assert code == 1, said
    assert ("lost-lease-extended", "lock") in kinds(run)
    assert ("changed-another-clients-key", "lock") in kinds(run)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workload", "regster"], "no workload is named 'regster', did you mean register?"),
        (["--workload", "acquire-release", "--fencing", "all"], "--fencing all means nothing to --workload acquire-re"),
        (["--fencing", "unique"], "--fencing unique means nothing to --workload fenced-counter"),
        (["--workload", "acquire-release", "--require", "data"], "--require data means nothing to --workload acquire"),
    ],
)
def test_options_that_mean_nothing_to_a_workload_are_one_line_before_anything_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(["test", *arguments]) == 254
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert says in err
