"""Texts that are kept beside their tests."""

from __future__ import annotations

import pytest

pytest_plugins = "pytester"

TESTS = """
import pytest

@pytest.mark.parametrize("name", ["ann", "bob"])
def test_greeting(golden, name):
    golden(f"Hello, {name}")
    golden("How are you?")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_words=TESTS)
    return pytester


def play(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "tests.golden", "-p", "no:randomly", "-p", "no:cacheprovider", *options)


def test_a_text_is_compared_with_the_one_that_is_kept(suite: pytest.Pytester) -> None:
    play(suite).assert_outcomes(failed=2)
    play(suite, "--rewrite-golden").assert_outcomes(passed=2)
    play(suite).assert_outcomes(passed=2)
    kept = suite.path / "test_words.golden.txt"
    assert kept.read_text().splitlines()[:5] == [
        "=== test_greeting[ann]",
        "Hello, ann",
        "",
        "=== test_greeting[ann], text 2",
        "How are you?",
    ]
    kept.write_text(kept.read_text().replace("Hello, bob", "Hello, rob"))
    play(suite).assert_outcomes(passed=1, failed=1, errors=0)


def test_a_text_that_is_not_made_any_more_is_an_error_until_it_is_rewritten(suite: pytest.Pytester) -> None:
    play(suite, "--rewrite-golden").assert_outcomes(passed=2)
    suite.makepyfile(test_words=TESTS.replace('    golden("How are you?")\n', ""))
    play(suite).assert_outcomes(passed=2, errors=2)
    play(suite, "--rewrite-golden").assert_outcomes(passed=2)
    assert "How" not in (suite.path / "test_words.golden.txt").read_text()


def test_nothing_is_kept_of_a_test_that_is_gone(suite: pytest.Pytester) -> None:
    play(suite, "--rewrite-golden").assert_outcomes(passed=2)
    suite.makepyfile(test_words=TESTS.replace("test_greeting", "test_welcome"))
    play(suite, "--rewrite-golden").assert_outcomes(passed=2)
    assert "greeting" not in (suite.path / "test_words.golden.txt").read_text()
