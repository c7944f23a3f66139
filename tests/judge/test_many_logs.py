"""Logs that several threads read are read as one thread reads them, and errors are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.history import Op
from harness.store import many_logs
from harness.store.append_log import AppendLog
from harness.store.many_logs import Log, read_ops

MISSING = -(2**63)


@pytest.fixture
def logs(tmp_path: Path) -> list[Log]:
    """Five logs. Each has names that the others do not have, and numbers that only some operations have."""
    made: list[Log] = []
    for number in range(5):
        path = tmp_path / f"c{number}.1.jsonl"
        with AppendLog(path) as log:
            log.extend(
                Op(
                    "acquire" if n % 3 else f"step-{number}",
                    "ok" if n % 2 else "fail",
                    f"k{n % (number + 1)}",
                    n,
                    n,
                    n + 1,
                    value=-n if n % 5 == 0 else None,
                    validity_ms=n / 3 if n % 2 else None,
                    deadline_ns=2**62 - n if number == 3 else None,
                    error=f"error {number}-{n}" if n % 7 == 0 else None,
                    stale=n % 11 == 0,
                )
                for n in range(300)
            )
        made.append((f"c{number}", number + 1, path))
    return made


@pytest.fixture
def by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_logs, "WORTH_A_THREAD", 1_000)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})


def test_several_threads_read_what_one_reads(logs: list[Log], request: pytest.FixtureRequest) -> None:
    alone = read_ops(logs)
    request.getfixturevalue("by_threads")
    together = read_ops(logs)
    assert together.equals(alone)
    assert (together.dtypes == alone.dtypes).all()
    for name in ("f", "key", "client", "error"):
        assert together[name].cat.categories.tolist() == alone[name].cat.categories.tolist()
    assert together["deadline_ns"].isna().sum() == 4 * 300


@pytest.mark.usefixtures("by_threads")
def test_a_damaged_log_is_named_whoever_reads_it(logs: list[Log]) -> None:
    lines = logs[4][2].read_bytes().splitlines(keepends=True)
    logs[4][2].write_bytes(b"".join([*lines[:10], b'{"f":"read"}\n', *lines[10:]]))
    with pytest.raises(UsageError, match=r"c4\.1\.jsonl line 11 is not a valid record") as told:
        read_ops(logs)
    assert "\n" not in str(told.value)
    logs[4][2].unlink()
    with pytest.raises(UsageError, match=r"c4\.1\.jsonl cannot be read"):
        read_ops(logs)


def test_short_logs_are_read_by_one_thread(logs: list[Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert len(many_logs.shares_of(logs)) == 1
    monkeypatch.setattr(many_logs, "WORTH_A_THREAD", 1_000)
    shares = many_logs.shares_of(logs)
    assert len(shares) == 3
    assert [log for share in shares for log in share] == logs


def test_the_number_that_stands_for_a_missing_one_is_no_number(logs: list[Log]) -> None:
    line = b'{"f":"read","outcome":"ok","key":"k","section":1,"invoke_ns":1,"complete_ns":2,"token":%d}\n'
    logs[0][2].write_bytes(line % (MISSING + 1))
    assert read_ops(logs[:1])["token"].tolist() == [MISSING + 1]
    logs[0][2].write_bytes(line % MISSING)
    with pytest.raises(UsageError, match="line 1 is not a valid record"):
        read_ops(logs[:1])


def test_a_null_is_a_missing_number(logs: list[Log]) -> None:
    line = b'{"f":"read","outcome":"ok","key":"k","section":1,"invoke_ns":1,"complete_ns":2,"value":%s}\n'
    logs[0][2].write_bytes(line % b"null" + line % b"7")
    assert read_ops(logs[:1])["value"].isna().tolist() == [True, False]
