"""The URLs of `--nodes-at`: what they mean, and that no message tells a password."""

from __future__ import annotations

import pytest

from cluster.upstream import PASSWORD_VARIABLE, shown, upstreams_in
from fencepost.errors import UsageError

SECRET = "s3cret"


def test_a_url_is_shown_without_its_password() -> None:
    (found,) = upstreams_in(f"rediss://app:{SECRET}@db.example:6380")
    assert found == ("db.example", 6380, True, "app", None)
    assert found.login == ("app", SECRET)
    assert shown([found]) == "rediss://app:***@db.example:6380"
    assert SECRET not in repr(found)


def test_a_password_may_be_of_any_characters() -> None:
    (found,) = upstreams_in("redis://:p%40ss%2Cw%2Fd@db.example")
    assert (found.login, found.port) == (("default", "p@ss,w/d"), 6379)


def test_a_password_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=PASSWORD_VARIABLE):
        upstreams_in("redis://app:***@db.example:6379")
    monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    (found,) = upstreams_in("redis://app:***@db.example:6379")
    assert found.login == ("app", SECRET)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:6379", "it is no URL"),
        ("", "it is no URL"),
        ("http://localhost:6379", "http:// is not known here"),
        ("redis://", "it names no host"),
        ("redis://localhost:0", "it names no port"),
        ("redis://localhost:port", "the port is no number"),
        ("redis://localhost:70000", "the port is no number"),
        ("redis://localhost:6379/3", "locks use database 0"),
        ("redis://localhost:6379?db=3", "nothing may follow the port"),
        ("redis://a:1,redis://a:1", "names a:1 twice"),
        ("redis://a:1;redis://b:2", "the port is no number"),
    ],
)
def test_a_mistake_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        upstreams_in(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"redis://app:{SECRET}/x@localhost:6379",
        f"redis://app:{SECRET},x@localhost:6379",
        f"redis://app:{SECRET}@localhost:port",
        f"reds://app:{SECRET}@localhost:6379",
        f"redis://app:{SECRET}@localhost:6379/7",
    ],
)
def test_no_mistake_tells_the_password(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        upstreams_in(text)
    assert SECRET not in str(caught.value)


def test_an_authority_needs_tls() -> None:
    with pytest.raises(UsageError, match="--nodes-ca is about TLS"):
        upstreams_in("redis://localhost:6379", "ca.pem")
