"""Late writes: let in, kept out, and tokens that are worth nothing."""

from __future__ import annotations

from harness.checkers.fencing import check
from tests.golden import Golden
from tests.judge.histories import History


def lapsed(**config: str) -> History:
    """c1 outlives its lease; c2 comes in, and is out again before c1 is."""
    return History(**config).section("c1", 0, 500).section("c2", 120, 140)


def test_writes_in_the_order_of_their_holders_are_not_stale() -> None:
    answer = check(lapsed().write("c1", 1).write("c2", 2).recorded())
    assert answer.findings == ()
    assert answer.figures.stale_writes_accepted == 0


def test_a_write_after_a_later_holder_s_write_is_stale() -> None:
    (finding,) = check(lapsed().write("c2", 1).write("c1", 1).recorded()).findings
    assert (finding.kind, finding.blame, finding.count) == ("stale-write-accepted", "client", 1)
    assert finding.breaks == "data"
    assert finding.text.startswith("1 stale write was accepted")
    assert finding.examples[0]["stale"]["client"] == "c1"  # type: ignore[index]
    assert finding.examples[0]["after"]["client"] == "c2"  # type: ignore[index]


def test_every_stale_write_counts(golden: Golden) -> None:
    history = lapsed().write("c2", 1).write("c1", 1).write("c1", 2)
    (finding,) = check(history.recorded()).findings
    assert finding.count == 2
    golden(finding.text)


def test_a_stale_write_in_the_lock_s_overlap_is_the_lock_s_fault() -> None:
    history = History().section("c1", 0, 50).section("c2", 20, 40).write("c2", 1).write("c1", 1)
    assert check(history.recorded()).findings[0].blame == "lock"


def test_of_two_sections_that_started_at_the_same_time_neither_is_later() -> None:
    for first, second in (("c1", "c2"), ("c2", "c1")):
        history = History().section("c1", 10, 50).section("c2", 10, 40).write(first, 1).write(second, 1)
        assert check(history.recorded()).findings == ()


def test_nor_is_one_of_them_if_another_section_starts_at_another_time() -> None:
    history = History().section("c1", 10, 50).section("c2", 10, 40).section("c3", 60, 70)
    assert check(history.write("c2", 1).write("c1", 2).write("c3", 3).recorded()).findings == ()


def test_tokens_count_for_the_keys_of_which_every_write_shows_one() -> None:
    """The start of a section tells who is later on the other key."""
    history = lapsed().section("c1", 600, 610, number=2, key="k2").section("c2", 620, 630, number=2, key="k2")
    history.write("c2", 1, token=6).write("c1", 2, token=7)
    history.write("c1", 1, number=2, key="k2", token=9).write("c2", 2, number=2, key="k2")
    assert check(history.recorded()).figures.stale_writes_accepted == 0
    history = lapsed().section("c1", 600, 610, number=2, key="k2").section("c2", 620, 630, number=2, key="k2")
    history.write("c2", 1, token=7).write("c1", 2, token=6)
    history.write("c2", 1, number=2, key="k2", token=8).write("c1", 2, number=2, key="k2")
    assert check(history.recorded()).figures.stale_writes_accepted == 2


def test_tokens_tell_who_is_later_where_they_are_shown() -> None:
    """The starts are in the other order: a grant is learnt late, but its token was drawn first."""
    history = lapsed().write("c2", 1, token=5).write("c1", 2, token=6)
    assert check(history.recorded()).figures.stale_writes_accepted == 0
    history = lapsed().write("c2", 1, token=6).write("c1", 2, token=5)
    assert check(history.recorded()).figures.stale_writes_accepted == 1


def test_the_same_token_again_is_not_stale() -> None:
    assert check(lapsed().write("c2", 1, token=5).write("c2", 2, token=5).recorded()).findings == ()


def test_keys_have_tokens_of_their_own() -> None:
    history = History().section("c1", 0, 10, key="k1").section("c2", 0, 10, key="k2")
    history.write("c1", 1, key="k1", token=9).write("c2", 1, key="k2", token=3)
    assert check(history.recorded()).findings == ()


def test_a_resource_that_checks_tokens_and_takes_a_smaller_one_is_to_blame() -> None:
    history = lapsed(fencing="writes").write("c2", 1, token=6).write("c1", 1, token=5)
    assert check(history.recorded()).findings[0].blame == "resource"


def test_refusals_are_fencing_at_work() -> None:
    history = lapsed(fencing="all").op("c1", "write", "fail", 1, 200, 201, value=1, token=5, stale=True)
    history.op("c1", "read", "fail", 1, 210, 211, token=5, stale=True).op("c1", "read", "fail", 1, 220, 221, stale=True)
    figures = check(history.recorded()).figures
    assert (figures.mode, figures.stale_writes_rejected, figures.stale_reads_rejected) == ("all", 1, 2)


def test_only_a_resource_that_took_a_smaller_token_is_said_to_have_been_shown_one() -> None:
    """With one write without a token the key's writes are told apart by their sections, and that says nothing of it."""
    words = "although it carried a smaller token"
    by_token = lapsed(fencing="writes").write("c2", 1, token=6).write("c1", 1, token=5)
    assert words in check(by_token.recorded()).findings[0].text
    by_section = lapsed(fencing="writes").write("c2", 1, token=6).write("c1", 1)
    (finding,) = check(by_section.recorded()).findings
    assert (finding.blame, words in finding.text) == ("client", False)


def test_both_sources_of_tokens_are_named() -> None:
    history = History().section("c1", 0, 10, token=7, token_source="lock")
    assert check(history.recorded()).figures.token_source == "lock"
    history.section("c2", 20, None).op("c2", "token", "ok", 1, 20, 21, token=8).op("c2", "release", "ok", 1, 30, 31)
    assert check(history.recorded()).figures.token_source == "lock+resource"


def tokens(first: int, second: int, *, source: str = "lock", start: float = 20) -> History:
    history = History().section("c1", 0, 10, token=first, token_source=source)
    return history.section("c2", start, 30, token=second, token_source=source)


def test_tokens_must_grow_from_one_section_to_the_next() -> None:
    assert check(tokens(1, 2).recorded()).findings == ()
    (finding,) = check(tokens(2, 2).recorded()).findings
    assert (finding.kind, finding.blame, finding.count) == ("token-not-increasing", "lock", 1)


def test_sections_that_overlap_may_have_their_tokens_in_any_order() -> None:
    assert check(tokens(2, 1, start=10).recorded()).findings == ()
    assert len(check(tokens(2, 1, start=10.1).recorded()).findings) == 1


def test_a_token_drawn_from_the_resource_is_the_resource_s_matter() -> None:
    history = History().section("c1", 0, 10).op("c1", "token", "ok", 1, 1, 2, token=4)
    history.section("c2", 20, 30).op("c2", "token", "ok", 1, 21, 22, token=3)
    answer = check(history.recorded())
    assert answer.findings[0].blame == "resource"
    assert answer.figures.token_source == "resource"


def test_a_run_without_tokens_says_so() -> None:
    figures = check(lapsed().recorded()).figures
    assert (figures.mode, figures.token_source, figures.tokens_not_increasing) == ("none", "none", 0)


def of_many_keys(*tokens: int) -> History:
    """On each of ten keys the same writes, in the order of their tokens, and on k1 two more in another order."""
    history = History(fencing="writes", keys=10)
    for key in range(10):
        for number, token in enumerate(tokens, 1):
            at, name = 100 * (10 * number + key), f"k{key}"
            history.section("c1", at, at + 10, number=10 * number + key, key=name, token=token)
            history.write("c1", number, number=10 * number + key, at=at + 5, key=name, token=token)
    return history


def test_tokens_may_be_any_numbers_of_64_bits() -> None:
    """Ten keys times the numbers between them do not fit into 64 bits."""
    low, high = -(2**63) + 1, 2**63 - 1
    assert check(of_many_keys(low, 0, high - 1, high).recorded()).findings == ()
    found = check(of_many_keys(low, high, 0).recorded())
    assert found.figures.stale_writes_accepted == 10
    assert found.figures.tokens_not_increasing == 10
