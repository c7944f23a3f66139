"""A policy is text in redis.conf and an expectation of CONFIG GET."""

from __future__ import annotations

from cluster.persistence import POLICIES, config_mismatch, config_text, expected_config, server_directives


def test_each_policy_expects_what_it_writes() -> None:
    for policy in POLICIES:
        written = dict(server_directives(bind="127.0.0.1", port=1, folder="/f", policy=policy))
        assert expected_config(policy).items() <= written.items()
        assert config_mismatch(policy, written) is None


def test_a_policy_that_is_not_in_force_is_named() -> None:
    everysec = expected_config("aof-everysec")
    assert config_mismatch("aof-always", everysec) == "appendfsync is 'everysec', not 'always'"
    assert config_mismatch("none", everysec) == "appendonly is 'yes', not 'no'"
    assert config_mismatch("none", {}) == "save is None, not ''; appendonly is None, not 'no'"


def test_values_that_are_not_one_plain_word_are_quoted() -> None:
    assert config_text([("save", ""), ("dir", '/a b"c'), ("port", "1")]) == 'save ""\ndir "/a b\\"c"\nport 1\n'
