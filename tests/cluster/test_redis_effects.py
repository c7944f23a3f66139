"""What a request can have done to a key, by its command, its script and its reply."""

from __future__ import annotations

import pytest

from cluster.effects import EVERY_CHANGE, Effect
from cluster.redis_effects import EFFECTS

COMPARE_AND_DELETE = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
LEAVES_EARLY = """\
-- deletes only its own
local key = KEYS[1]
local value = redis.call("GET", key)
if not value or value ~= ARGV[1] then
    return 0
end
redis.call("DEL", key)
return 1"""
SETS_THEN_EXPIRES = """\
if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
end
return 0"""
GRANTS_A_HASH = """\
if (redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil;
end;
return redis.call('pttl', KEYS[1]);"""
CLEANS_ITS_QUEUE = "redis.call('zrem', KEYS[1] .. ':queue', ARGV[1]) return redis.call('del', KEYS[1])"
IN_A_LOOP = "for i=1,#KEYS do if redis.call('del', KEYS[i]) == 1 then return 1 end end return 0"
COMPUTED = "return redis.call(ARGV[1], KEYS[1])"
WITH_A_FUNCTION = "local function free(k) return redis.call('del', k) end return free(KEYS[1])"
NOSCRIPT = '{"error":"NOSCRIPT No matching script."}'


def command(words: str, reply: str | None) -> Effect:
    name, *arguments = words.split()
    which = EFFECTS.words_of(name)
    return EFFECTS.effect(name, arguments[which], reply, {}) if which is not None else Effect()


def script(text: str, reply: str | None, keys: int = 1) -> Effect:
    return EFFECTS.effect("EVALSHA", ["sha", str(keys)], reply, {"sha": text})


@pytest.mark.parametrize(
    ("words", "reply", "changes"),
    [
        ("SET k v NX PX 1000", '"OK"', {"set"}),
        ("SET k v NX PX 1000", None, {"set"}),
        ("SET k v NX PX 1000", "null", set()),
        ("SET k v NX GET", "null", {"set"}),
        ("SET k v NX GET", '"other"', set()),
        ("SET k v", '{"error":"OOM command not allowed"}', set()),
        ("SETNX k v", "0", set()),
        ("SETNX k v", "1", {"set"}),
        ("DEL k", "0", set()),
        ("DEL k", "1", {"deleted"}),
        ("PEXPIRE k 1000", "1", {"prolonged"}),
        ("PEXPIRE k 1000", "0", set()),
        ("PEXPIRE k 0", "1", {"deleted"}),
        ("PEXPIREAT k 1000", "1", {"prolonged", "deleted"}),
        ("GET k", '"v"', set()),
        ("PING", '"PONG"', set()),
        ("LPOP k", '"v"', {"changed", "deleted"}),
        ("LPOP k", "null", set()),
        ("NEWCOMMAND k", "1", EVERY_CHANGE),
    ],
)
def test_a_command_can_have_done_what_its_reply_allows(words: str, reply: str | None, changes: set[str]) -> None:
    assert command(words, reply).changes == changes


@pytest.mark.parametrize(
    ("text", "reply", "changes"),
    [
        (COMPARE_AND_DELETE, "0", set()),
        (COMPARE_AND_DELETE, "1", {"deleted"}),
        (COMPARE_AND_DELETE, None, {"deleted"}),
        (COMPARE_AND_DELETE, NOSCRIPT, set()),
        (COMPARE_AND_DELETE, '{"error":"OOM command not allowed. script: 3d1f, on @user_script:1."}', {"deleted"}),
        (LEAVES_EARLY, "0", set()),
        (LEAVES_EARLY, "1", {"deleted"}),
        (SETS_THEN_EXPIRES, "0", set()),
        (SETS_THEN_EXPIRES, "1", {"set", "prolonged"}),
        (GRANTS_A_HASH, "null", {"set", "prolonged"}),
        (GRANTS_A_HASH, "731", set()),
        (IN_A_LOOP, "0", {"deleted"}),
        (COMPUTED, "0", EVERY_CHANGE),
        (WITH_A_FUNCTION, "0", EVERY_CHANGE),
    ],
)
def test_a_script_can_have_done_what_leads_to_its_answer(text: str, reply: str | None, changes: set[str]) -> None:
    assert script(text, reply).changes == changes


@pytest.mark.parametrize("text", [COMPARE_AND_DELETE, LEAVES_EARLY])
def test_a_script_that_compares_deletes_only_the_value_that_it_names(text: str) -> None:
    assert script(text, "1").value_was == 3  # behind the script, the number of keys, and the key
    assert script(text, "1", keys=2).value_was is None


def test_a_script_that_does_not_compare_needs_no_value() -> None:
    assert script("return redis.call('del',KEYS[1])", "1").value_was is None


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (script(COMPARE_AND_DELETE, "1"), True),
        (script(COMPARE_AND_DELETE, None), False),
        (script("redis.call('del',KEYS[1]) return 1", "1"), False),
        (script("redis.call('set',KEYS[1],ARGV[1]) return 1", "1"), True),
        (script("local x = ARGV[2] and redis.call('set',KEYS[1],ARGV[1]) return 1", "1"), False),
        (script("if ARGV[2] == 'x' or redis.call('set',KEYS[1],ARGV[1]) then return 1 end return 0", "1"), False),
        (script("if ARGV[2] == 'x' then redis.call('set',KEYS[1],ARGV[1]) end return 1", "1"), False),
        (command("SET k v NX", '"OK"'), True),
        (command("SET k v NX", None), False),
        (command("DEL k", "1"), True),
        (command("DEL k", None), False),
    ],
)
def test_a_reply_may_prove_that_the_key_was_changed(effect: Effect, expected: bool) -> None:
    assert effect.is_certain is expected


def test_a_script_may_change_keys_that_its_caller_does_not_name() -> None:
    assert script(CLEANS_ITS_QUEUE, "1").any_key
    assert not script(COMPARE_AND_DELETE, "1").any_key
    assert not script(LEAVES_EARLY, "1").any_key


def test_a_script_whose_text_is_not_on_record_may_have_done_anything() -> None:
    effect = EFFECTS.effect("EVALSHA", ["another", "1"], "0", {})
    assert (effect.changes, effect.any_key) == (EVERY_CHANGE, True)


def test_a_set_tells_what_the_key_holds_then() -> None:
    assert command("SET k v PX 1000", '"OK"').value_at == 1
    assert command("PSETEX k 1000 v", '"OK"').value_at == 2


@pytest.mark.parametrize(
    ("text", "keys", "value_at"),
    [
        ("if redis.call('set',KEYS[1],ARGV[1],'NX') then return redis.call('incr',KEYS[2]) end return false", 2, 4),
        ("local id = ARGV[2] redis.call('setnx', KEYS[1], id) return 1", 1, 4),
        ("redis.call('set', KEYS[1], ARGV[1] .. ':' .. ARGV[2]) return 1", 1, None),
        ("redis.call('set', KEYS[1], ARGV[1]) redis.call('set', KEYS[2], ARGV[2]) return 1", 2, None),
        (COMPARE_AND_DELETE, 1, None),
    ],
)
def test_a_script_may_set_a_key_to_an_argument(text: str, keys: int, value_at: int | None) -> None:
    assert script(text, "1", keys).value_at == value_at
