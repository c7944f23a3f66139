"""Whose the keys on the nodes were: what the requests say that set them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import Owners
from tests.judge.histories import History, ms


def inside(**config: Any) -> History:
    """c1 asked at 5 and was inside from 10 to 50."""
    return History(**config).watch("n1").section("c1", 10, 50, asked=5)


def own(
    history: History, client: str = "c1", value: str = "v1", *, at: float = 8, key: str = "k1", **more: Any
) -> History:
    """The client's request sets this value, which is read, or not (`unread`). `sent`: when it was, if not just then."""
    value_read = None if more.pop("unread", False) else value
    history.seen("n1", "set", at, value_read, since=at - 1, key=key, ttl=100)
    return history.request(client, "n1", f"SET {key} {value} NX PX 100", at - 0.5, at, **more)


def owners_of(history: History) -> Owners:
    owners = history.recorded().owners
    assert owners is not None
    return owners


def sections(history: History) -> list[int]:
    return owners_of(history).holdings["section"].tolist()


def test_no_lock_has_to_show_anything() -> None:
    owners = owners_of(own(inside()))
    assert owners.are_shown
    assert owners.values == {0: {"v1"}}
    assert owners.holdings["client"].tolist() == owners.holdings["task"].tolist() == ["c1"]
    assert owners.holdings["done_ns"].tolist() == [ms(51)]


def test_nothing_is_known_without_a_record_of_the_links() -> None:
    history = own(inside())
    history.wire = False
    assert history.recorded().owners is None


def test_a_value_that_was_never_read_is_its_sections_all_the_same() -> None:
    assert sections(own(inside(), unread=True)) == [0]
    assert owners_of(own(inside(), unread=True)).values == {}, "not one value is known"


def test_the_requests_tell_the_keys_of_two_clients_with_one_value_apart() -> None:
    history = own(inside(), value="same").seen("n1", "deleted", 51).section("c2", 70, 90)
    owners = owners_of(own(history, "c2", "same", at=69.9))
    assert owners.holdings["section"].tolist() == [0, 1]
    assert owners.shared == {("k1", "same"): [0, 1]}
    assert owners.values == {}, "comparing it proves nothing"


def test_a_value_is_not_shared_if_its_sections_have_one_of_their_own_beside_it() -> None:
    history = own(own(inside(), value="locked"), value="v1", at=9, key="k1:owner").seen("n1", "deleted", 51)
    history.section("c2", 70, 90)
    assert owners_of(own(own(history, "c2", "locked", at=69.8), "c2", "v2", at=69.9, key="k1:owner")).shared == {}


def test_a_number_that_scripts_set_for_several_clients_counts_something() -> None:
    history = inside()
    for client, at in (("c1", 8), ("c2", 69.9)):
        history.seen("n1", "set", at, "1", since=at - 1, ttl=100)
        history.request(client, "n1", "EVALSHA f00 1 k1", at - 0.5, at).seen("n1", "deleted", at + 50)
    owners = owners_of(history.section("c2", 70, 90))
    assert (owners.holdings["section"].tolist(), owners.shared) == ([-1, -1], {})


def test_a_key_that_a_refused_attempt_set_is_no_sections_and_done_with_when_that_ends() -> None:
    history = own(inside()).seen("n1", "deleted", 51).op("c2", "acquire", "fail", 1, 55, 60)
    owners = owners_of(own(history, "c2", "v2", at=57))
    assert owners.holdings["section"].tolist() == [0, -1]
    assert owners.holdings["done_ns"].tolist() == [ms(51), ms(60)]
    assert owners.values == {0: {"v1"}}


def test_a_refused_attempt_that_has_the_value_of_its_section_set_the_sections_key() -> None:
    history = History().watch("n1", "n2").op("c1", "acquire", "fail", 1, 1, 4).section("c1", 10, 50, asked=5)
    own(history, at=3)
    history.request("c1", "n2", "SET k1 v1 NX PX 100", 7, 8).seen("n2", "set", 8, "v1", since=6, ttl=100)
    assert sections(history) == [0, 0]


def test_a_request_that_arrives_after_its_call_still_belongs_to_it() -> None:
    assert sections(own(inside(), at=80, sent=9)) == [0]
    history = own(inside()).seen("n1", "deleted", 51).op("c2", "acquire", "fail", 1, 55, 60)
    owners = owners_of(own(history, "c2", "v2", at=90, sent=57))
    assert (owners.holdings["section"].tolist()[1], owners.holdings["done_ns"].tolist()[1]) == (-1, ms(60))


def test_background_work_between_grant_and_release_is_the_sections() -> None:
    owners = owners_of(own(own(inside()), value="v2", at=30))
    assert (owners.holdings["section"].tolist(), owners.values) == ([0, 0], {0: {"v1", "v2"}})
    assert sections(own(own(inside()).seen("n1", "deleted", 51), value="v2", at=60)) == [0, -1], "it has been left"


@pytest.mark.parametrize("outcome", ["ok", "fail"])
def test_what_an_extension_sets_is_its_sections_also_if_it_fails_halfway(outcome: str) -> None:
    history = own(inside()).op("c1", "extend", outcome, 1, 20, 25)
    assert owners_of(own(history, value="v2", at=22)).values == {0: {"v1", "v2"}}


def test_what_an_acquire_gave_up_itself_is_not_its_sections() -> None:
    history = own(inside(), value="v0", at=6)
    history.seen("n1", "deleted", 7, since=6.1).request("c1", "n1", "DEL k1", 6.5, 7, reply="1")
    owners = owners_of(own(history))
    assert (owners.holdings["section"].tolist(), owners.values) == ([-1, 0], {0: {"v1"}})
    assert owners.holdings["done_ns"].tolist()[0] == ms(10)


def test_a_record_with_the_keys_own_name_that_only_releases_set_is_not_the_lock() -> None:
    history = own(inside(), key="lock:k1").seen("n1", "set", 50.6, "v1", since=50.4, key="k1")
    history.request("c1", "n1", "SET k1 v1", 50.5, 50.6).seen("n1", "deleted", 50.9, since=50.7, key="lock:k1")
    owners = owners_of(history.request("c1", "n1", "DEL lock:k1", 50.8, 50.9, reply="1"))
    assert owners.holdings[["key", "section"]].values.tolist() == [["lock:k1", 0]]
    assert "k1" not in owners.holdings["key"].tolist()


def test_a_ticket_with_the_same_value_that_is_given_back_takes_nothing_from_the_section() -> None:
    history = own(own(inside(), at=7, key="k1:ticket"), at=8).seen("n1", "deleted", 9, since=8.6, key="k1:ticket")
    holdings = owners_of(history.request("c1", "n1", "DEL k1:ticket", 8.7, 8.9, reply="1")).holdings
    assert dict(zip(holdings["key"], holdings["section"], strict=True))["k1"] == 0


def test_what_an_earlier_round_had_set_is_not_the_sections_if_the_lock_tells_its_rounds() -> None:
    history = History().watch("n1").section("c1", 10, 50, asked=5, requested_ns=ms(7))
    assert sections(own(own(history, value="v0", at=6).seen("n1", "expired", 6.2), at=8)) == [-1, 0]


@pytest.mark.parametrize(("sent", "section"), [(6.9, -1), (7.1, 0)])
def test_what_an_earlier_round_had_set_is_the_sections_if_its_own_round_prolongs_it(sent: float, section: int) -> None:
    """The replies of the earlier round were lost, so that it did not know what it had set."""
    history = own(History().watch("n1").section("c1", 10, 50, asked=5, requested_ns=ms(7)), at=6)
    history.seen("n1", "prolonged", 8, "v1", since=7, ttl=100)
    assert sections(history.request("c1", "n1", "PEXPIRE k1 100", 7.5, 8, sent=sent)) == [section]


def test_a_section_that_set_nothing_although_others_do_has_no_value() -> None:
    assert owners_of(own(inside()).section("c2", 60, 90)).values == {0: {"v1"}, 1: set()}


def test_a_client_that_finds_its_own_key_has_its_value() -> None:
    owners = owners_of(own(inside()).section("c1", 70, 90, asked=65, number=2).seen("n1", "deleted", 91))
    assert owners.values == {0: {"v1"}, 1: {"v1"}}
    assert owners.of_clients == {"v1": "c1"}
    assert owners_of(own(inside()).section("c2", 70, 90, asked=65).seen("n1", "deleted", 91)).values[1] == set()


def test_a_call_that_prolongs_its_own_clients_key_has_its_value() -> None:
    def anew(client: str) -> set[str]:
        history = own(inside()).section(client, 70, 90, asked=65, number=2)
        history.seen("n1", "prolonged", 68, "v1", since=66, ttl=100).request(client, "n1", "PEXPIRE k1 100", 67, 68)
        return owners_of(history).values[1]

    assert anew("c1") == {"v1"}
    assert anew("c2") == set(), "it is another client's key"


def field(history: History, client: str, fields: str, at: float) -> History:
    history.seen("n1", "set", at, fields, since=at - 1, ttl=100, is_hash=True)
    return history.request(client, "n1", f"HSET k1 {fields.split(', ')[-1]} 1", at - 0.5, at)


def test_fields_that_its_owner_adds_leave_a_hash_with_it() -> None:
    owners = owners_of(field(field(inside(), "c1", "a1", 8), "c1", "a1, a2", 20))
    assert owners.holdings["section"].tolist() == [0, 0]
    assert owners.values == {0: {"a1", "a1, a2"}}


def test_a_key_that_a_thread_hands_over_is_the_next_clients() -> None:
    """c1's thread, of which task is not known, names c1's value and sets that of c2, which waits and had named it."""
    history = History(tasks=2).watch("n1").section("c1@1", 10, 50, asked=5).section("c2@1", 55, 90, asked=20)
    own(history, "c1@1", "value-of-c1", at=8)
    history.request("c2@1", "n1", "EVAL wait 1 k1 value-of-c2", 21, 22, reply="0", did=False)
    history.seen("n1", "set", 50.6, "value-of-c2", since=50, ttl=100)
    history.request("c1", "n1", "EVAL leave 1 k1 value-of-c1", 50.1, 50.4, did=False)
    history.by(history.key_events[-1], len(history.requests) - 1)
    assert sections(history) == [0, 1]


@pytest.mark.parametrize(("shared", "of"), [(True, [0, -1, -1]), (False, [0, 1, 1])], ids=["readers", "one at a time"])
def test_what_a_task_leaves_in_a_hash_may_be_of_another_task_of_its_process(shared: bool, of: list[int]) -> None:
    """c1@1 and c1@2 each have a field; c1@2 takes its own out when it leaves."""
    more = {"shared": True} if shared else {}
    history = History(tasks=2, workload="rw-lock" if shared else "fenced-counter").watch("n1")
    history.section("c1@1", 10, 80, asked=5, **more).section("c1@2", 30, 50, asked=25, **more)
    field(field(history, "c1@1", "a", 8), "c1@2", "a, b", 28)
    history.seen("n1", "set", 50.6, "a", since=50, ttl=100, is_hash=True)
    history.request("c1@2", "n1", "HDEL k1 b", 50.2, 50.5, did=False).by(history.key_events[-1], 2)
    assert owners_of(history).holdings["section"].tolist() == of


def test_a_hash_with_the_fields_of_two_clients_may_be_eithers() -> None:
    history = field(field(inside(), "c1", "a", 8), "c2", "a, b", 20).section("c2", 60, 90)
    holdings = owners_of(history).holdings
    assert holdings["section"].tolist() == [0, -1]
    assert holdings["value"].tolist() == ["a", None]
    assert holdings["ended"].tolist()[0] == "set unread", "nothing was overwritten"
    assert holdings["done_ns"].tolist()[1] == FOREVER_NS


def test_a_key_that_is_there_again_with_its_value_is_whose_it_was() -> None:
    history = own(inside()).seen("n1", "blind", 20).seen("n1", "seen", 30, "v1").seen("n1", "watching", 30, "second")
    assert sections(history) == [0, 0]


def test_a_key_of_which_it_is_not_known_who_set_it_may_be_any_sections_of_its_time() -> None:
    """The record of the links to this node is not whole."""
    history = History().watch("n1", "n2").section("c1", 10, 50, asked=5).section("c2", 60, 90)
    history = own(history).seen("n2", "set", 9, "on n2", since=8, ttl=100)
    history.not_recorded.add("n2")
    owners = owners_of(history)
    assert owners.holdings["section"].tolist() == [0, -1]
    assert owners.values == {0: {"v1", "on n2"}, 1: set()}


def test_a_value_that_only_one_section_set_shows_it_where_the_record_is_not_whole() -> None:
    history = own(History().watch("n1", "n2").section("c1", 10, 50, asked=5)).seen("n2", "set", 9, "v1", ttl=100)
    history.not_recorded.add("n2")
    assert sections(history) == [0, 0]


def freed(history: History, key: str, at: float = 50.5) -> History:
    history.seen("n1", "deleted", at + 0.2, since=at, key=key)
    return history.request("c1", "n1", f"DEL {key}", at, at + 0.2, reply="1")


def test_a_key_that_acquires_set_and_releases_delete_is_the_lock_whatever_its_name() -> None:
    holdings = owners_of(freed(own(inside(), key="lock:k1"), "lock:k1")).holdings
    assert holdings[["key", "lock_key"]].values.tolist() == [["lock:k1", "k1"]]


def test_a_key_beside_it_that_releases_do_not_delete_is_not_the_lock() -> None:
    owners = owners_of(freed(own(own(inside(), key="lock:k1"), value="seen last", at=9, key="last:k1"), "lock:k1"))
    assert owners.holdings["key"].tolist() == ["lock:k1"]
    assert owners.copies == {"last:k1"}


def test_a_key_that_no_acquire_sets_is_not_the_lock_whatever_its_name() -> None:
    history = freed(own(inside(), key="lock:k1"), "lock:k1").seen("n1", "set", 52, "gone", since=51.5)
    history.op("c1", "release", "fail", 1, 51.2, 53).request("c1", "n1", "SET k1 gone", 51.6, 52)
    assert owners_of(history).holdings["key"].tolist() == ["lock:k1"]


def test_where_no_key_has_its_own_name_the_copy_is_the_one_with_fewer_sections() -> None:
    history = History(clients=3).watch("n1")
    for number in (1, 2, 3):
        client, value, at = f"c{number}", f"v{number}", 10 * number
        history.section(client, at + 2, at + 5, asked=at - 2)
        for key, later in (("lock:k1", -1), ("last", 1)):
            if key != "last" or number < 3:
                history.request(client, "n1", f"SET {key} {value}", at + later, at + later + 0.5)
                history.seen("n1", "set", at + later + 0.7, value, since=at + later - 0.5, key=key)
    assert owners_of(history).copies == {"last"}


def versions(*, unknown: bool = False) -> History:
    """Each grant sets a key of its own, `k1:v:N`, and a pointer to it that stays. The second one's key expires. Whose
    task asked for that is not known if both tasks of its client did (`unknown`)."""
    history = History(clients=3, tasks=2).watch("n1")
    for number in (1, 2, 3):
        client, at = f"c{number}", 200 * number
        history.section(f"{client}@1", at + 2, at + 120, asked=at - 2, deadline=at + 90)
        if unknown and number == 2:
            history.op(f"{client}@2", "acquire", "fail", 1, at - 2, at + 30)
            history.request(client, "n1", "EVAL take 2 k1:ptr k1:v: other", at - 1, at - 0.9, reply="0", did=False)
        words = f"EVAL take 2 k1:ptr k1:v: value-{number}"
        history.request(client, "n1", words, at - 0.5, at, reply=f'"{number}"', did=False)
        for key, value, ttl in (
            ("k1:ptr", f"17959667024395{number}", None),
            (f"k1:v:17959667024395{number}", "v", 100),
        ):
            shown = f"value-{number}" if value == "v" else value
            history.seen("n1", "set", at, shown, since=at - 1, key=key, ttl=ttl)
            history.by(history.key_events[-1], len(history.requests) - 1)
        if number == 2:
            history.seen("n1", "expired", at + 101, key=f"k1:v:17959667024395{number}")
        else:
            history.op(f"{client}@1", "release", "ok", 1, at + 120, at + 125)
            history.request(client, "n1", f"DEL k1:v:17959667024395{number}", at + 121, at + 122, reply="1", did=False)
            history.seen("n1", "deleted", at + 122, since=at + 120, key=f"k1:v:17959667024395{number}")
            history.by(history.key_events[-1], len(history.requests) - 1)
    return history


def test_of_keys_with_numbers_some_may_never_be_deleted() -> None:
    """Each grant sets the key of its ticket. The second one expires."""
    history = History(clients=3).watch("n1")
    for number in (1, 2, 3):
        client, at = f"c{number}", 200 * number
        history.section(client, at, at + 50 if number != 2 else None, asked=at - 2, deadline=at + 90)
        own(history, client, f"value-{number}", at=at - 1, key=f"k1:t:{number}")
        if number == 2:
            history.seen("n1", "expired", at + 101, key="k1:t:2")
        else:
            history.request(client, "n1", f"DEL k1:t:{number}", at + 50.5, at + 50.6)
            history.seen("n1", "deleted", at + 50.7, since=at + 50, key=f"k1:t:{number}")
    owners = owners_of(history)
    assert (owners.copies, owners.holdings["section"].tolist()) == (set(), [0, 1, 2])


def tickets(*of: tuple[str, float, int]) -> History:
    """c1@1 and c2@1 are inside, and while c1@1 acquires, so does c1@2. `of`: who sets the key of which ticket, when."""
    history = History(clients=2, tasks=2).watch("n1").section("c1@1", 10, 50, asked=8).section("c2@1", 70, 90, asked=68)
    history.op("c1@2", "acquire", "fail", 1, 7, 30)
    for client, at, number in of:
        own(history, client, f"value-{number}", at=at, key=f"k1:t:{number}")
        left = 50.5 if number == 1 else 90.5
        history.request(client, "n1", f"DEL k1:t:{number}", left, left + 0.1)
        history.seen("n1", "deleted", left + 0.2, since=left, key=f"k1:t:{number}")
    return history


@pytest.mark.parametrize(("by", "sections"), [("c1@1", [0, 1]), ("c1", [-1, 1])])
def test_a_key_that_is_alike_may_be_of_any_task_that_asked(by: str, sections: list[int]) -> None:
    owners = owners_of(tickets((by, 9, 1), ("c2", 69, 2)))
    assert owners.holdings["section"].tolist() == sections
    assert owners.values == {0: {"value-1"}, 1: {"value-2"}}


@pytest.mark.parametrize(("words", "section"), [("EVAL renew 1 k1 v1 v2", 0), ("EVAL renew 1 k1 v0 v2", -1)])
def test_a_thread_that_names_the_value_of_its_process_goes_on_with_it(words: str, section: int) -> None:
    """While c1@2 waits for the same key, a thread gives the key of c1@1 a new value."""
    history = History(clients=2, tasks=2).watch("n1").section("c1@1", 10, 50, asked=7)
    history = own(history, "c1@1").op("c1@2", "acquire", "fail", 1, 15, 60)
    history.seen("n1", "set", 30, "v2", since=29, ttl=100).request("c1", "n1", words, 29.5, 30)
    assert sections(history) == [0, section]


def test_a_thread_that_frees_one_tasks_key_and_sets_the_next_ones_does_both_with_one_request() -> None:
    """c1@1 releases while c1@2 waits for the same key."""
    history = (
        History(clients=2, tasks=2).watch("n1").section("c1@1", 10, 50, asked=7).op("c1@1", "release", "ok", 1, 50, 54)
    )
    history = own(history, "c1@1").section("c1@2", 53, 90, asked=40)
    history.request("c1", "n1", "EVAL batch 1 k1 v1 v2", 51, 52)
    for event, value in (("deleted", None), ("set", "v2")):
        history.seen("n1", event, 52, value, since=50, ttl=100).by(history.key_events[-1], len(history.requests) - 1)
    assert sections(history) == [0, -1]


@pytest.mark.parametrize(("by", "known"), [("c2", [1]), ("c2@1", [0, 1])])
def test_where_tasks_are_not_noted_a_section_without_a_value_is_not_known(by: str, known: list[int]) -> None:
    assert sorted(owners_of(tickets((by, 69, 2))).values) == known


@pytest.mark.parametrize(
    ("by", "words", "known"),
    [("c1", "GET k1:t:1", [1]), ("c1", "PING", [0, 1]), ("c1@2", "GET k1:t:1", [0, 1]), ("c2", "GET k1:t:1", [0, 1])],
)
def test_nor_is_one_whose_process_did_not_note_all_that_it_sent(by: str, words: str, known: list[int]) -> None:
    history = tickets(("c2@1", 69, 2)).request(by, "n1", words, 9, 9.5, did=False)
    assert sorted(owners_of(history).values) == known


@pytest.mark.parametrize("unknown", [False, True])
def test_each_grant_may_set_a_key_of_its_own(unknown: bool) -> None:
    """What holds for one of them holds for all of its kind: releases delete them, and not the pointer."""
    owners = owners_of(versions(unknown=unknown))
    assert owners.copies == {"k1:ptr"}
    assert owners.holdings["lock_key"].tolist() == ["k1"] * 3
    assert owners.holdings["section"].tolist() == [0, -1 if unknown else 1, 2]


def jobs(**sets: str) -> History:
    """By the name of a lock: what the acquires of its sections set, one after the other, and their releases delete: a
    note, the lock's key, or both."""
    history = History(clients=4).watch("n1")
    for number, (name, kinds) in enumerate(sets.items(), 1):
        for turn, kind in enumerate(kinds.split()):
            at, section = 100.0 * number + 20 * turn, 10 * number + turn
            history.section(f"c{number}", at + 10, at + 15, number=section, asked=at + 5, key=name)
            for each in ("note", "lock") if kind == "both" else (kind,):
                own(history, f"c{number}", f"{each}-{section}", at=at + 8, key=f"{each}:{name}")
                history.request(f"c{number}", "n1", f"DEL {each}:{name}", at + 15.2, at + 15.5)
                history.seen("n1", "deleted", at + 15.6, since=at + 15.1, key=f"{each}:{name}")
    history.key_events.sort(key=lambda event: event.at_ns)
    return history


def test_what_is_a_copy_beside_one_lock_is_a_copy_beside_each() -> None:
    """Of k1 alone one would take the note for the lock's key."""
    owners = owners_of(jobs(k1="both both note", k2="both lock lock lock", k3="both lock"))
    assert owners.copies == {"note:k1", "note:k2", "note:k3"}


@pytest.mark.parametrize(("permits", "copies"), [(1, {"other"}), (2, set())])
def test_a_key_that_is_set_along_with_the_keys_own_name_is_a_copy(permits: int, copies: set[str]) -> None:
    config = {"workload": "semaphore", "permits": 2} if permits == 2 else {}
    owners = owners_of(freed(freed(own(own(inside(**config)), at=9, key="other"), "k1"), "other", 50.8))
    assert owners.copies == copies


@pytest.mark.parametrize("key", ["k1", "tokens"])
def test_a_mark_beside_a_token_that_releases_put_back_is_not_the_lock(key: str) -> None:
    """The lock is free while its token is there, and the mark says that there is one."""
    history = own(inside(), value="there", key="k1:init")
    history.seen("n1", "set", 9, None, since=8.9, key=key).request("c1", "n1", f"RPUSH {key} t", 8.8, 9)
    history.seen("n1", "deleted", 9.6, since=9.4, key=key).request("c1", "n1", f"BLPOP {key} 1", 9.3, 9.6)
    history.seen("n1", "set", 50.6, None, since=50.4, key=key).request("c1", "n1", f"RPUSH {key} t", 50.3, 50.6)
    assert owners_of(history).values == ({} if key == "k1" else {0: {"there"}})


SEMAPHORE = {"workload": "semaphore", "permits": 2}


@pytest.mark.parametrize(("by", "of"), [("c1@1", [0]), ("c1", [])])
def test_whose_place_it_is_is_known_if_the_process_noted_which_task_asked(by: str, of: list[int]) -> None:
    history = History(tasks=2, **SEMAPHORE).watch("n1").section("c1@1", 10, 50, asked=8)
    own(history, by, "v1", at=9, key="k1:1").request(by, "n1", "DEL k1:1", 50.5, 50.6)
    assert sections(history.seen("n1", "deleted", 50.7, key="k1:1", since=50)) == of


@pytest.mark.parametrize(
    ("does", "what", "of"),
    [("DEL k1:free", "deleted", [0]), ("INCR k1:free", "changed", []), ("HINCRBY k1:free n 1", "changed", [])],
)
def test_what_counts_the_free_permits_is_nobodys(does: str, what: str, of: list[int]) -> None:
    history = own(inside(**SEMAPHORE), value="2", key="k1:free")
    history.request("c1", "n1", does, 50.5, 50.6).seen("n1", what, 50.7, key="k1:free", since=50)
    assert sections(history) == of


@pytest.mark.parametrize(
    ("freed_by", "of"), [("another acquire", []), ("another release", []), ("its release", [0, 1])]
)
def test_the_keys_that_tell_who_waits_are_no_places(freed_by: str, of: list[int]) -> None:
    """One key for each section, whose name ends with an identifier."""
    history = inside(**SEMAPHORE).section("c2", 10, 50, asked=5)
    for client, other, name in (("c1", "c2", "k1:0f5124e643be874c"), ("c2", "c1", "k1:9b33174a5365c9b3")):
        own(history, client, "waits", at=8, key=name)
        by, at = (client if freed_by == "its release" else other), (9.5 if freed_by == "another acquire" else 50.5)
        history.request(by, "n1", f"DEL {name}", at, at + 0.1).seen("n1", "deleted", at + 0.2, since=at, key=name)
    history.request("c1", "n1", "ZREM k1:holders c1", 50.8, 50.9).seen("n1", "changed", 51, key="k1:holders", since=50)
    assert sections(history) == of


@pytest.mark.parametrize(("name", "of"), [("k1:exists", [1]), ("k1:slot:3", [0, 1])])
def test_a_mark_beside_the_slots_of_a_semaphore_is_none_of_them(name: str, of: list[int]) -> None:
    """c1's acquire leaves a mark that no release ever takes away; slots have numbers, and of those one is enough."""
    history = own(inside(**SEMAPHORE).section("c2", 60, 90, asked=55), value="1", key=name)
    own(history, "c2", "v2", at=58, key="k1:slot:2")
    history.request("c2", "n1", "DEL k1:slot:2", 90.5, 90.6).seen("n1", "deleted", 90.7, since=90.4, key="k1:slot:2")
    assert sections(history) == of


@pytest.mark.parametrize(("config", "of"), [({"workload": "rw-lock"}, [0]), (SEMAPHORE, [])])
def test_a_readers_field_that_is_counted_up_is_its_own(config: dict[str, Any], of: list[int]) -> None:
    """A semaphore counts its permits in a field."""
    shared = {"shared": True} if "permits" not in config else {}
    history = History(**config).watch("n1").section("c1", 10, 50, asked=5, **shared)
    history.seen("n1", "set", 8.4, "c1=1", since=8, key="k1:all", ttl=100, is_hash=True)
    history.request("c1", "n1", "HINCRBY k1:all c1 1", 8, 8.2)
    history.request("c1", "n1", "DEL k1:all", 50.5, 50.6).seen("n1", "deleted", 50.7, since=50.5, key="k1:all")
    assert sections(history) == of


@pytest.mark.parametrize(("reads", "places"), [(True, [0, 0]), (False, [0, -1])])
def test_a_value_that_was_read_is_of_the_section_that_had_set_it(reads: bool, places: list[int]) -> None:
    """The key is deleted, and c2, which is refused, sets c1's value again."""
    history = own(inside(), value="drawn-by-c1").op("c2", "acquire", "fail", 1, 8.5, 30)
    if reads:
        history.request("c2", "n1", "GET k1", 9, 9.1, reply='"drawn-by-c1"', did=False)
    history.request("c3", "n1", "DEL k1", 15, 15.2, reply="1").seen("n1", "deleted", 15.1, since=15)
    assert sections(own(history, "c2", "drawn-by-c1", at=20)) == places
