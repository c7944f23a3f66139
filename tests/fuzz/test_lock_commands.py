from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import BrokenEnvironmentError
from tests.fuzz.command import fresh, fuzz
from tests.fuzz.hostile import BYTES, damaged_json
from tests.locks.conftest import redis_at
from tests.workload.test_lock_steps import steps_of
from workloads.answer_checks import checked_description
from workloads.base import LockSettings
from workloads.foreign import ForeignLock

GRANTED = {
    "outcome": "ok",
    "value": "v",
    "validity_ms": 900.5,
    "granted_ms": 1_000,
    "deadline_ns": 10**12,
    "computed_after_ns": 5,
    "computed_before_ns": 6,
    "requested_ns": 4,
    "token": 7,
}
OPENED = {"outcome": "ok", "describe": {"library": "mine 1", "retries": [1, {"a": None}]}}
REFUSED = {"outcome": "fail", "error": "somebody has it"}


@fuzz(60)
@given(data=st.data())
def test_any_answer_is_recorded_as_it_can_be_read_again_or_ends_the_run(tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    answer = data.draw(st.sampled_from([GRANTED, GRANTED, REFUSED]))
    first = data.draw(st.one_of(st.just(json.dumps(OPENED).encode()), damaged_json(OPENED)))
    second = data.draw(st.one_of(damaged_json(answer), damaged_json(answer), BYTES))
    (place / "said").write_bytes(first + b"\n" + second + data.draw(st.sampled_from([b"\n", b""])))
    # It answers the first request at once, and the second one only when it is asked.
    script = "IFS= read -r _; head -n 1 said; IFS= read -r _; tail -n +2 said"
    try:
        lock = ForeignLock(
            ["sh", "-c", f"cd {place}; {script}"], [redis_at("127.0.0.1", 1)], LockSettings(log_path=place / "log")
        )
    except BrokenEnvironmentError:
        return
    try:
        checked_description(lock.describe())
        steps = steps_of(lock, place)  # type: ignore[arg-type]
        op = steps.acquire("k1")
        assert op.outcome in ("ok", "fail", "info")
    except BrokenEnvironmentError:
        return
    finally:
        lock._end()
