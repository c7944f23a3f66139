"""Passwords of a run are hidden in what is written down."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cluster.credentials import Access
from harness.run.redaction import redact
from workloads.secrecy import TELLING, hidden

SECRET = "nK3-v_0dQw4w9WgXcQ-7Yq2rTzLmP5sUuHaB8eGfIjKl"


def test_a_password_is_hidden_wherever_it_is_quoted() -> None:
    said = f"cannot log in at redis://:{SECRET}@127.0.0.1:7001/0 with {SECRET}"
    assert hidden(said.encode(), SECRET) == b"cannot log in at redis://:***@127.0.0.1:7001/0 with ***"


@given(st.text(), st.integers(TELLING, len(SECRET)))
def test_what_is_left_of_a_password_in_a_text_that_was_cut_off_is_hidden(before: str, length: int) -> None:
    assert hidden((before + SECRET[:length]).encode(errors="replace"), SECRET).endswith(b"***")


@given(st.binary())
def test_what_quotes_no_password_is_as_it_was(text: bytes) -> None:
    assert hidden(text, SECRET) == text
    assert hidden(text, None) == text


def test_logs_of_a_run_keep_all_but_its_passwords(tmp_path: Path) -> None:
    access = Access.fresh(closed=True)
    assert access.clients is not None
    (tmp_path / "c1.1.lock.log").write_bytes(
        f"open {access.clients}\nas {access.harness.password}\n".encode() + b"\xff"
    )
    (tmp_path / "empty.log").touch()
    (tmp_path / "other.log").write_text("all is well\n")
    with (tmp_path / "c1.1.lock.log").open("ab") as writer:
        redact(tmp_path, access)
        writer.write(b" end")
    assert (tmp_path / "c1.1.lock.log").read_bytes() == b"open ***\nas ***\n\xff end"
    assert (tmp_path / "empty.log").read_bytes() == b""
    assert (tmp_path / "other.log").read_text() == "all is well\n"
