from __future__ import annotations

from typing import cast

import pytest

from fencepost.history import Write
from workloads.fencing import DRAW_TOKEN
from workloads.kinds.fenced_counter import read_counter, write_counter
from workloads.redis_resource import RedisResource
from workloads.resource import StaleAccessError


def write(value: int, token: int | None = None, client: str = "a", section: int = 1) -> Write:
    return Write("k1", 0, client, section, value, token)


def next_token(resource: RedisResource, key: str) -> int:
    return cast(int, resource.run(DRAW_TOKEN, [f"token:{key}"], []))


def test_tokens_of_a_key_count_from_one_and_keys_count_apart(resource: RedisResource) -> None:
    assert [next_token(resource, "k1"), next_token(resource, "k1"), next_token(resource, "k2")] == [1, 2, 1]


def test_a_counter_that_was_never_written_reads_zero(resource: RedisResource) -> None:
    assert read_counter(resource, "k1", None) == 0


def test_a_write_is_read_back_and_recorded_in_order(resource: RedisResource) -> None:
    write_counter(resource, write(1), check=False)
    write_counter(resource, write(2, client="b"), check=False)
    assert read_counter(resource, "k1", None) == 2
    assert [(w.client, w.value) for w in resource.accepted_since(0)] == [("a", 1), ("b", 2)]
    assert [w.value for w in resource.accepted_since(1)] == [2]


def test_a_write_with_a_smaller_token_than_a_write_before_is_refused_and_not_recorded(resource: RedisResource) -> None:
    write_counter(resource, write(1, token=2), check=True)
    with pytest.raises(StaleAccessError):
        write_counter(resource, write(1, token=1), check=True)
    assert read_counter(resource, "k1", None) == 1
    assert len(resource.accepted_since(0)) == 1


def test_the_same_token_may_write_again(resource: RedisResource) -> None:
    write_counter(resource, write(1, token=2), check=True)
    write_counter(resource, write(2, token=2), check=True)
    assert read_counter(resource, "k1", None) == 2


def test_an_unchecked_write_passes_whatever_its_token(resource: RedisResource) -> None:
    write_counter(resource, write(1, token=2), check=True)
    write_counter(resource, write(7, token=1), check=False)
    assert read_counter(resource, "k1", None) == 7


def test_tokens_on_writes_only_lose_the_late_write_that_lands_before_the_next_holders_write(
    resource: RedisResource,
) -> None:
    earlier, later = next_token(resource, "k1"), next_token(resource, "k1")
    assert read_counter(resource, "k1", None) == 0  # the earlier holder reads, then is paused
    assert read_counter(resource, "k1", None) == 0  # the next holder reads
    write_counter(resource, write(1, token=earlier), check=True)  # the late write: `later` was not seen yet
    write_counter(resource, write(1, token=later), check=True)  # … and is overwritten
    assert read_counter(resource, "k1", None) == 1, "two acknowledged increments, one of them lost"


def test_tokens_on_reads_too_refuse_the_late_write_in_the_same_interleaving(resource: RedisResource) -> None:
    earlier, later = next_token(resource, "k1"), next_token(resource, "k1")
    assert read_counter(resource, "k1", earlier) == 0
    assert read_counter(resource, "k1", later) == 0
    with pytest.raises(StaleAccessError):
        write_counter(resource, write(1, token=earlier), check=True)
    write_counter(resource, write(1, token=later), check=True)
    assert read_counter(resource, "k1", None) == 1, "one acknowledged increment, none lost"


def test_a_read_with_a_stale_token_is_refused(resource: RedisResource) -> None:
    read_counter(resource, "k1", 5)
    with pytest.raises(StaleAccessError):
        read_counter(resource, "k1", 4)


def test_tokens_are_compared_as_numbers_not_as_text(resource: RedisResource) -> None:
    read_counter(resource, "k1", 9)
    write_counter(resource, write(1, token=10), check=True)
    with pytest.raises(StaleAccessError):
        write_counter(resource, write(2, token=9), check=True)
