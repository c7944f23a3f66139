"""Texts that people read, kept beside the tests that make them: `test_sentences.py` has `test_sentences.golden.txt`,
with a section for each text.

A test hands a text to the fixture `golden`, and fails if it is not, word for word, what is kept. After a wanted change
`pytest --rewrite-golden tests/…` writes the new texts, and the diff shows what readers will see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

import pytest

_HEAD: Final = re.compile(r"^=== (.+)\n", re.MULTILINE)


class Golden(Protocol):
    def __call__(self, text: str) -> None:
        """Assert that this text of the test, one of several in the order of the calls, is the one that is kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "keep the texts of tests as they are now (tests/golden.py)"
    parser.getgroup("fencepost").addoption("--rewrite-golden", action="store_true", help=words)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """What compares the texts of this test with those that are kept."""
    file, name, made = file_of(request.path), request.node.name, list[str]()
    is_rewriting = request.config.getoption("--rewrite-golden")
    left = [] if is_rewriting else texts_of(file, name)

    def compare(text: str) -> None:
        made.append(text.strip("\n"))
        if not is_rewriting:
            kept, left[:] = left[:1], left[1:] if left[:1] == made[-1:] else []
            assert made[-1:] == kept

    yield compare
    if is_rewriting:
        rewrite(file, name, made, request.module)
    assert left == [], "texts are kept that are not made any more"


def file_of(test: Path) -> Path:
    return test.with_suffix(".golden.txt")


def _sections(file: Path) -> dict[str, str]:
    _, *parts = _HEAD.split(file.read_text()) if file.exists() else ("",)
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _title(name: str, number: int) -> str:
    return name if number == 0 else f"{name}, text {number + 1}"


def texts_of(file: Path, name: str) -> list[str]:
    """The texts that are kept of a test."""
    sections, found = _sections(file), list[str]()
    while (title := _title(name, len(found))) in sections:
        found.append(sections[title])
    return found


def rewrite(file: Path, name: str, texts: list[str], module: ModuleType) -> None:
    """Keep these texts of a test, and none of a test that its module does not have any more."""
    sections = _sections(file)
    for number in range(len(texts), len(texts_of(file, name))):
        del sections[_title(name, number)]
    sections |= {_title(name, number): text for number, text in enumerate(texts)}
    kept = {title: text for title, text in sections.items() if hasattr(module, re.split(r"[\[,]", title)[0])}
    file.write_text("\n\n".join(f"=== {title}\n{text}" for title, text in kept.items()) + "\n")
