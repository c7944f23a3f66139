from __future__ import annotations

import socket
import subprocess
import sys
from typing import cast

import hiredis
import pytest
from redis import Redis

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Write
from workloads.fencing import DRAW_TOKEN
from workloads.redis_counter import RedisCounter
from workloads.redis_resource import RedisResource
from workloads.resource import StaleAccessError


def write(value: int, token: int | None = None, client: str = "a", section: int = 1) -> Write:
    return Write("k1", 0, client, section, value, token)


def next_token(resource: RedisResource, key: str) -> int:
    return cast(int, resource.run(DRAW_TOKEN, [f"token:{key}"], []))


def test_tokens_of_a_key_count_from_one_and_keys_count_apart(resource: RedisResource) -> None:
    assert [next_token(resource, "k1"), next_token(resource, "k1"), next_token(resource, "k2")] == [1, 2, 1]


def test_a_counter_that_was_never_written_reads_zero(resource: RedisResource) -> None:
    assert RedisCounter(resource).read("k1", None) == 0


def test_a_write_is_read_back_and_recorded_in_order(resource: RedisResource) -> None:
    RedisCounter(resource).write(write(1), check=False)
    RedisCounter(resource).write(write(2, client="b"), check=False)
    assert RedisCounter(resource).read("k1", None) == 2
    assert [(w.client, w.value) for w in resource.accepted_since(0)] == [("a", 1), ("b", 2)]
    assert [w.value for w in resource.accepted_since(1)] == [2]


def test_a_write_with_a_smaller_token_than_a_write_before_is_refused_and_not_recorded(resource: RedisResource) -> None:
    RedisCounter(resource).write(write(1, token=2), check=True)
    with pytest.raises(StaleAccessError):
        RedisCounter(resource).write(write(1, token=1), check=True)
    assert RedisCounter(resource).read("k1", None) == 1
    assert len(resource.accepted_since(0)) == 1


def test_the_same_token_may_write_again(resource: RedisResource) -> None:
    RedisCounter(resource).write(write(1, token=2), check=True)
    RedisCounter(resource).write(write(2, token=2), check=True)
    assert RedisCounter(resource).read("k1", None) == 2


def test_an_unchecked_write_passes_whatever_its_token(resource: RedisResource) -> None:
    RedisCounter(resource).write(write(1, token=2), check=True)
    RedisCounter(resource).write(write(7, token=1), check=False)
    assert RedisCounter(resource).read("k1", None) == 7


def test_tokens_on_writes_only_lose_the_late_write_that_lands_before_the_next_holders_write(
    resource: RedisResource,
) -> None:
    earlier, later = next_token(resource, "k1"), next_token(resource, "k1")
    assert RedisCounter(resource).read("k1", None) == 0  # the earlier holder reads, then is paused
    assert RedisCounter(resource).read("k1", None) == 0  # the next holder reads
    RedisCounter(resource).write(write(1, token=earlier), check=True)  # the late write: `later` was not seen yet
    RedisCounter(resource).write(write(1, token=later), check=True)  # … and is overwritten
    assert RedisCounter(resource).read("k1", None) == 1, "two acknowledged increments, one of them lost"


def test_tokens_on_reads_too_refuse_the_late_write_in_the_same_interleaving(resource: RedisResource) -> None:
    earlier, later = next_token(resource, "k1"), next_token(resource, "k1")
    assert RedisCounter(resource).read("k1", earlier) == 0
    assert RedisCounter(resource).read("k1", later) == 0
    with pytest.raises(StaleAccessError):
        RedisCounter(resource).write(write(1, token=earlier), check=True)
    RedisCounter(resource).write(write(1, token=later), check=True)
    assert RedisCounter(resource).read("k1", None) == 1, "one acknowledged increment, none lost"


def test_a_read_with_a_stale_token_is_refused(resource: RedisResource) -> None:
    RedisCounter(resource).read("k1", 5)
    with pytest.raises(StaleAccessError):
        RedisCounter(resource).read("k1", 4)


def test_tokens_are_compared_as_numbers_not_as_text(resource: RedisResource) -> None:
    RedisCounter(resource).read("k1", 9)
    RedisCounter(resource).write(write(1, token=10), check=True)
    with pytest.raises(StaleAccessError):
        RedisCounter(resource).write(write(2, token=9), check=True)


def test_a_script_that_the_server_has_forgotten_is_sent_again(resource: RedisResource, redis_port: int) -> None:
    assert next_token(resource, "k1") == 1
    with Redis(port=redis_port) as admin:
        admin.script_flush()
    assert next_token(resource, "k1") == 2


def test_an_error_that_is_no_refusal_is_raised_and_the_connection_goes_on(resource: RedisResource) -> None:
    with pytest.raises(hiredis.ReplyError, match="no such thing"):
        resource.run("return redis.error_reply('no such thing')", [], [])
    assert next_token(resource, "k1") == 1


def test_a_connection_that_ended_while_nothing_was_asked_is_made_again(
    resource: RedisResource, redis_port: int
) -> None:
    assert next_token(resource, "k1") == 1
    with Redis(port=redis_port) as admin:
        admin.client_kill_filter(_type="normal", skipme=True)
    assert next_token(resource, "k1") == 2


def test_a_late_reply_is_not_taken_for_the_answer_to_the_next_request(resource: RedisResource, redis_port: int) -> None:
    impatient = RedisResource("127.0.0.1", redis_port, None, timeout_ms=50)
    impatient.warm_up([DRAW_TOKEN])
    with Redis(port=redis_port) as admin:
        admin.client_pause(300, all=True)
    with pytest.raises(TimeoutError):
        impatient.run(DRAW_TOKEN, ["token:k1"], [])
    resource.warm_up([])  # answered when the pause is over
    impatient._timeout_s = 2  # of the next connection
    assert impatient.run("return 'the next'", [], []) == "the next"
    impatient.close()


def test_what_asks_for_a_password_gets_it_and_a_wrong_one_is_an_error_every_time(
    resource: RedisResource, redis_port: int
) -> None:
    with Redis(port=redis_port) as admin:
        admin.config_set("requirepass", "right")
        try:
            for password, works in (("right", True), ("wrong", False)):
                asking = RedisResource("127.0.0.1", redis_port, password, timeout_ms=2_000)
                for _ in range(2):
                    if works:
                        assert asking.run("return 1", [], []) == 1
                    else:
                        with pytest.raises(hiredis.ReplyError, match="WRONGPASS"):
                            asking.run("return 1", [], [])
                asking.close()
        finally:
            admin.config_set("requirepass", "")


def test_a_resource_that_nobody_reaches_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.redis_resource.WARM_UP_S", 0)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(BrokenEnvironmentError, match=r"the resource does not answer within 0 s: .*refused"):
            RedisResource(*held.getsockname(), None, timeout_ms=2_000).warm_up([])


def test_a_client_imports_no_more_than_it_uses() -> None:
    """Every client process of every run pays for it."""
    heavy = {"asyncio", "redis", "pandas", "numpy", "pyarrow", "rich", "docker"}
    heavy |= {"subprocess", "logging", "tomllib", "shutil", "tempfile", "difflib", "traceback"}
    look = "import sys, workloads.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)
