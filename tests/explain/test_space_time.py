"""Records of which each request is known, and what a picture of them has in it."""

from __future__ import annotations

import pytest

from harness.explain.scenes import scene_of
from harness.explain.space_time import MOST_ARROWS, Picture, draw
from harness.explain.wire_requests import WireRequests
from harness.verdict import Finding
from tests.explain.pictures import Links, example_of, explained, picture, recorded
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def taken_away() -> tuple[History, Links]:
    """c1 is inside, c3 deletes its key, c2 gets in."""
    history, links = History(clients=3).watch(*NODES), Links()
    history.section("c1", 10, 60, asked=8).sets("c1", "one").section("c2", 30, 50, asked=28).sets("c2", "two")
    history.op("c3", "release", "ok", 1, 20, 21)
    for place, node in enumerate(NODES):
        at = 8 + place / 10
        links.asked("c1", node, "SET k1 one NX PX 100", "OK", at, at + 0.01, at + 0.02, at + 0.03)
        history.seen(node, "set", at + 1, "one", since=8, ttl=100)
        at += 12
        links.asked("c3", node, "DEL k1", 1, at, at + 0.01, at + 0.02, at + 0.03)
        history.seen(node, "deleted", at + 1, since=at - 1)
        at += 8
        links.asked("c2", node, "SET k1 two NX PX 100", "OK", at, at + 0.01, at + 0.02, at + 0.03)
        history.seen(node, "set", at + 1, "two", since=at - 1, ttl=100).seen(node, "blind", 1200)
    return history, links


def told(drawn: Picture) -> list[tuple[str, str, str, str, str]]:
    return [(a.client, a.node, a.label, a.request.reply_label, a.did) for a in drawn.arrows]


def test_the_picture_of_an_overlap_names_the_request_that_deleted_the_key() -> None:
    drawn = picture(*taken_away())
    assert drawn.clients == ("c1", "c2", "c3"), "those inside, in order, and the one that took the key away"
    assert drawn.nodes == NODES
    assert told(drawn) == [
        *(("c1", node, "SET k1 NX PX 100", "OK", "") for node in NODES),
        *(("c3", node, "DEL k1 (release)", "1", "deletes c1's key") for node in NODES),
        *(("c2", node, "SET k1 NX PX 100", "OK", "") for node in NODES),
    ]
    assert [(s.client, s.number, s.from_ns, s.to_ns, s.valid_until_ns, s.is_exact) for s in drawn.sections] == [
        ("c1", 1, ms(10), ms(60), ms(110), True),
        ("c2", 1, ms(30), ms(50), ms(130), True),
    ]
    assert (drawn.from_ns, drawn.until_ns, drawn.to_ns, drawn.zero_ns) == (ms(8), ms(30), ms(50), ms(0))
    assert drawn.overlap == (ms(30), ms(50))
    assert not drawn.left_out


def test_a_key_on_a_node_is_a_bar_from_the_request_that_set_it_to_the_one_that_ended_it() -> None:
    drawn = picture(*taken_away())
    bars = [(bar.node, bar.owner, bar.from_ns, bar.ended_by and bar.ended_by.client) for bar in drawn.bars]
    assert bars == [
        each
        for place, node in enumerate(NODES)
        for each in ((node, "c1", ms(8.01 + place / 10), "c3"), (node, "c2", ms(28.01 + place / 10), None))
    ]
    assert [bar.to_ns for bar in drawn.bars if bar.owner == "c1"] == [ms(20.01 + place / 10) for place in range(3)]


def test_of_two_requests_at_once_the_one_that_the_node_names_deleted_the_key() -> None:
    history, links = taken_away()
    links.asked("c2", "n1", "DEL k1", 1, 20.2, 20.21, 20.22, 20.23, did=False)
    drawn = picture(history, links)
    arrows = [a for a in drawn.arrows if a.request.command == "DEL" and a.node == "n1"]
    assert [(a.client, a.did) for a in arrows] == [("c3", "deletes c1's key"), ("c2", "")]


def test_a_request_over_a_key_that_has_a_value_is_said_to_overwrite_it() -> None:
    history, links = History().watch("n1"), Links()
    history.section("c1", 10, 60, asked=8).sets("c1", "one").section("c2", 30, 50, asked=28).sets("c2", "two")
    history.seen("n1", "set", 9, "one", since=8, ttl=100).seen("n1", "set", 29, "two", since=27, ttl=100)
    links.asked("c1", "n1", "SET k1 one", "OK", 8.1, 8.2, 8.3, 8.4)
    links.asked("c2", "n1", "SET k1 two", "OK", 28.1, 28.2, 28.3, 28.4)
    assert told(picture(history, links)) == [
        ("c1", "n1", "SET k1", "OK", ""),
        ("c2", "n1", "SET k1", "OK", "overwrites c1's key"),
    ]


def test_only_what_touched_the_key_is_drawn_and_nothing_of_the_harness() -> None:
    history, links = taken_away()
    links.asked("c1", "n1", "SET k2 one", "OK", 12, 12.1, 12.2, 12.3, keys=("k2",))
    links.asked("c1", "n1", "PING", "PONG", 12, 12.1, 12.2, 12.3, keys=())
    links.asked("c1", "n1", "DEL k1", 0, 12, 12.1, 12.2, 12.3, by="harness")
    links.asked("c1", "resource", "GET k1", 0, 12, 12.1, 12.2, 12.3)
    assert told(picture(history, links)) == told(picture(*taken_away()))


def test_a_transaction_is_drawn_with_the_request_that_makes_it_work() -> None:
    history, links = taken_away()
    links.asked("c1", "n1", "PEXPIRE k1 100", "QUEUED", 12, 12.1, 12.2, 12.3, transaction=4)
    links.asked("c1", "n1", "EXEC", [1], 12.4, 12.5, 12.6, 12.7, keys=(), transaction=4)
    links.asked("c1", "n1", "EXEC", [1], 13.4, 13.5, 13.6, 13.7, keys=(), transaction=5)
    labels = [(a.label, a.request.reply_label) for a in picture(history, links).arrows if a.node == "n1"]
    assert labels[1:3] == [("PEXPIRE k1 100", "QUEUED"), ("EXEC", "[1]")]


def test_a_request_that_was_sent_before_and_arrives_now_is_drawn() -> None:
    history, links = taken_away()
    links.asked("c3", "n1", "DEL k1", 0, 2, 9.5, 9.6, 9.7)
    assert next(a.request.from_client_ns for a in picture(history, links).arrows if a.client == "c3") == ms(2)


def test_what_is_left_out_is_counted_and_what_changed_a_key_is_not() -> None:
    history, links = taken_away()
    for number in range(3_000):
        at = 11 + number / 1_000
        links.asked("c2", "n1", "SET k1 two NX PX 100", None, at, at, at, at)
    drawn = picture(history, links)
    assert len(drawn.arrows) <= MOST_ARROWS
    assert [a.did for a in drawn.arrows if a.client == "c3"] == ["deletes c1's key"] * 3
    shown = sum(a.client == "c2" for a in drawn.arrows)
    assert drawn.left_out == (("c2", 3_003 - shown),)


def test_a_client_that_stood_still_and_a_node_that_was_down_are_on_their_lanes() -> None:
    history, links = taken_away()
    history.fault("f1", 12, 25, paused_clients=("c1",)).fault("f2", 13, 24, nodes=("n2",), how_down="kill")
    history.fault("f3", 13, 24, paused_clients=("c9",)).fault("f4", 13, 24, holds=False, paused_clients=("c2",))
    outages = picture(history, links).outages
    assert [(out.lane, out.what, out.from_ns, out.to_ns) for out in outages] == [
        ("c1", "stopped", ms(12), ms(24)),
        ("n2", "down", ms(13), ms(23)),
    ]


def test_outages_by_one_fault_are_in_the_order_of_the_lanes() -> None:
    history, links = taken_away()
    history.fault("f1", 13, 24, nodes=("n3", "n1", "n2"), how_down="kill")
    assert [out.lane for out in picture(history, links).outages] == list(NODES)


def test_tasks_share_the_lane_of_their_process_where_it_notes_none() -> None:
    history, links = History(clients=1, tasks=2).watch("n1"), Links()
    history.section("c1@1", 10, 60, asked=8).section("c1@2", 30, 50, asked=28)
    links.asked("c1", "n1", "SET k1 one", "OK", 8.1, 8.2, 8.3, 8.4)
    drawn = picture(history, links)
    assert drawn.clients == ("c1",)
    assert [(section.client, section.who) for section in drawn.sections] == [("c1", "c1@1"), ("c1", "c1@2")]


def test_a_task_has_its_own_lane_where_its_process_notes_which_one_sends() -> None:
    history, links = History(clients=2, tasks=2).watch("n1"), Links()
    history.section("c1@1", 10, 60, asked=8).sets("c1@1", "one").section("c1@2", 30, 50, asked=28).sets("c1@2", "two")
    history.seen("n1", "set", 9, "one", since=8, ttl=100).seen("n1", "deleted", 21, since=19)
    history.seen("n1", "set", 29, "two", since=28, ttl=100).seen("n1", "blind", 1200)
    history.fault("f1", 12, 25, paused_clients=("c1",))
    links.asked("c1", "n1", "SET k1 one", "OK", 8.1, 8.2, 8.3, 8.4, task="c1@1")
    links.asked("c2", "n1", "DEL k1", 1, 20, 20.1, 20.2, 20.3, task="c2@2")
    links.asked("c1", "n1", "SET k1 two", "OK", 28.1, 28.2, 28.3, 28.4, task="c1@2")
    links.asked("c1", "n1", "GET k1", "two", 29.1, 29.2, 29.3, 29.4)
    drawn = picture(history, links)
    assert drawn.clients == ("c1@1", "c1@2", "c1", "c2@2"), "c1: what it sent for none of its tasks"
    assert [(a.client, a.did) for a in drawn.arrows] == [
        ("c1@1", ""),
        ("c2@2", "deletes c1@1's key"),
        ("c1@2", ""),
        ("c1", ""),
    ]
    assert [bar.owner for bar in drawn.bars] == ["c1@1", "c1@2"]
    assert [section.client for section in drawn.sections] == ["c1@1", "c1@2"]
    assert {out.lane for out in drawn.outages} == {"c1@1", "c1@2", "c1"}, "a process that is stopped stops its tasks"


def test_what_a_process_sent_for_no_task_is_not_another_clients_doing() -> None:
    history, links = History(clients=1, tasks=2).watch("n1"), Links()
    history.section("c1@1", 10, 60, asked=8).sets("c1@1", "one").section("c1@2", 30, 50, asked=28).sets("c1@2", "two")
    history.seen("n1", "set", 9, "one", since=8, ttl=100).seen("n1", "deleted", 21, since=19)
    history.seen("n1", "set", 29, "two", since=28, ttl=100).seen("n1", "blind", 1200)
    links.asked("c1", "n1", "SET k1 one", "OK", 8.1, 8.2, 8.3, 8.4, task="c1@1")
    links.asked("c1", "n1", "DEL k1", 1, 20, 20.1, 20.2, 20.3)
    links.asked("c1", "n1", "SET k1 two", "OK", 28.1, 28.2, 28.3, 28.4, task="c1@2")
    assert [(a.client, a.did) for a in picture(history, links).arrows] == [("c1@1", ""), ("c1", ""), ("c1@2", "")]


def test_nodes_that_were_not_watched_have_no_bars() -> None:
    history, links = History(), Links()
    history.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28)
    links.asked("c1", "n1", "SET k1 one", "OK", 8.1, 8.2, 8.3, 8.4)
    drawn = picture(history, links)
    assert (drawn.bars, len(drawn.arrows)) == ((), 1)


@pytest.mark.parametrize(
    "example",
    [{}, {"key": "k1"}, {"at_ms": 20.0}, {"key": 7, "at_ms": 20.0}, {"key": "k1", "at_ms": "soon"}],
    ids=["nothing", "no time", "no key", "no name", "no number"],
)
def test_a_finding_that_names_no_key_and_no_time_has_no_picture(example: dict[str, object]) -> None:
    run = taken_away()[0].recorded()
    assert scene_of(run, explained(run, Finding("any", "lock", "it", examples=(example,)))) is None


def test_a_finding_about_a_moment_is_drawn_on_its_node_from_the_time_that_the_key_was_set() -> None:
    history, links = taken_away()
    run = recorded(history, links)
    example = {"how": "deleted", "node": "n2", "key": "k1", "of": "c1", "at_ms": 21.0}
    scene = scene_of(run, explained(run, Finding("changed-another-clients-key", "lock", "it", examples=(example,))))
    assert scene is not None
    drawn = draw(run, scene, WireRequests(links.wire(), run.config.node_names))
    assert drawn is not None
    assert (drawn.clients, drawn.nodes) == (("c1", "c3"), ("n2",))
    assert told(drawn) == [
        ("c1", "n2", "SET k1 NX PX 100", "OK", ""),
        ("c3", "n2", "DEL k1 (release)", "1", "deletes c1's key"),
    ]


def test_the_picture_of_an_outage_has_its_beginning_and_its_end() -> None:
    """Of the many requests in between, those near both are drawn."""
    history, links = History(clients=2), Links()
    for at in range(100, 3_000, 10):
        links.asked("c1", "n1", "SET k1 one NX PX 100", None, at, at + 0.1, at + 0.2, at + 0.3)
    run = recorded(history, links)
    example = {"key": "k1", "at_ms": 500.0, "for_ms": 2_000.0, "clients": ("c1",)}
    scene = scene_of(run, explained(run, Finding("no-way-in", "lock", "it", examples=(example,))))
    assert scene is not None
    drawn = draw(run, scene, WireRequests(links.wire(), run.config.node_names))
    assert drawn is not None
    sent = [arrow.request.sent_ns for arrow in drawn.arrows]
    assert min(sent) <= ms(510)
    assert ms(2_490) <= max(sent) <= ms(2_500)
    assert (drawn.from_ns, drawn.until_ns) == (ms(495), ms(2_500))


def test_an_outage_within_a_section_is_shown_to_its_end() -> None:
    history, links = taken_away()
    run = recorded(history, links)
    example = {"client": "c1", "section": 1, "key": "k1", "at_ms": 20.0, "for_ms": 39.0}
    scene = scene_of(run, explained(run, Finding("lease-without-majority", "lock", "it", examples=(example,))))
    assert scene is not None
    assert (scene.until_ns, scene.over_ns) == (ms(59), ms(59))


def test_a_time_without_requests_has_no_picture() -> None:
    history, _ = taken_away()
    history.wire = False
    run = history.recorded()
    scene = scene_of(run, example_of(run, "overlap"))
    assert scene is not None
    assert draw(run, scene, WireRequests(Links().wire(), run.config.node_names)) is None
    assert not WireRequests(Links().wire(), run.config.node_names)


@pytest.mark.parametrize(
    ("words", "keys", "label"),
    [
        ("SET k1 3f9c PX 500 NX", ("k1",), "SET k1 PX 500 NX"),
        ("SETNX k1 3f9c", ("k1",), "SETNX k1"),
        ("DEL k1", ("k1",), "DEL k1"),
        ("PEXPIRE k1 500", ("k1",), "PEXPIRE k1 500"),
        ("EVAL def 1 k1 3f9c", ("k1",), "EVAL k1"),
        ("ZADD a-key-with-a-very-long-name 1 m 2 n", ("x",), "ZADD a-key-with-a-ve… 1 m"),
        ("EXEC", (), "EXEC"),
    ],
)
def test_a_label_has_what_an_engineer_would_write_on_the_arrow(words: str, keys: tuple[str, ...], label: str) -> None:
    links = Links().asked("c1", "n1", words, "OK", 1, 2, 3, 4, keys=(*keys, "k"))
    links.scripts["def"] = "return 1"
    (request,) = WireRequests(links.wire(), ("n1",)).on(("k",), ms(0), ms(9))
    assert request.label == label


@pytest.mark.parametrize(
    ("reply", "label"),
    [("OK", "OK"), (None, "nil"), (1, "1"), (..., ""), ({"error": "NOSCRIPT No"}, "NOSCRIPT"), ([1, "a"], '[1, "a"]')],
)
def test_a_reply_is_one_word(reply: object, label: str) -> None:
    links = Links().asked("c1", "n1", "GET k1", reply, 1, 2, 3, 4)
    (request,) = WireRequests(links.wire(), ("n1",)).on(("k1",), ms(0), ms(9))
    assert request.reply_label == label


def test_a_reply_that_was_cut_off_in_the_record_is_shown_as_it_is() -> None:
    links = Links().asked("c1", "n1", "GET k1", "x", 1, 2, 3, 4)
    links.rows[0]["reply"] = '"' + "x" * 1023
    (request,) = WireRequests(links.wire(), ("n1",)).on(("k1",), ms(0), ms(9))
    assert request.reply_label == '"xxxxxxxxxx…'


def test_a_record_of_links_that_ends_early_says_when() -> None:
    links = Links().asked("c1", "n1", "GET k1", "x", 1, 2, 3, 4)
    assert WireRequests(links.wire(ended=4), ("n1",)).ends_ns == ms(4)
    assert WireRequests(links.wire(), ("n1",)).ends_ns is None


def unread() -> tuple[History, Links]:
    """Two clients set and delete the key before the witness looks, and then c2 sets it again."""
    history, links = History(clients=3).watch("n1"), Links()
    history.section("c1", 10, 60, asked=8).section("c2", 30, 50, asked=28).sets("c2", "two")
    for at, client, word, reply in ((8, "c1", "SET", "OK"), (9, "c3", "DEL", 1), (10, "c3", "SET", "OK")):
        links.asked(client, "n1", f"{word} k1 {client}", reply, at, at + 0.1, at + 0.2, at + 0.3)
    links.asked("c2", "n1", "DEL k1", 1, 11, 11.1, 11.2, 11.3)
    links.asked("c2", "n1", "SET k1 two", "OK", 28, 28.1, 28.2, 28.3)
    for event in ("set", "deleted", "set", "deleted"):
        history.seen("n1", event, 12, since=7)
    history.seen("n1", "set", 29, "two", since=27, ttl=100).seen("n1", "blind", 1200)
    return history, links


def changes(drawn: Picture) -> list[tuple[str | None, str | None]]:
    return [(bar.owner, bar.ended_by and bar.ended_by.client) for bar in drawn.bars]


def test_values_that_went_unread_are_told_apart_by_the_order_of_requests_on_the_node() -> None:
    drawn = picture(*unread())
    assert changes(drawn) == [("c1", "c3"), ("c3", "c2"), ("c2", None)]
    assert [(a.client, a.did) for a in drawn.arrows if a.did] == [
        ("c3", "deletes c1's key"),
        ("c2", "deletes c3's key"),
    ]
