"""What a lock answered, checked before it is used: its types, its ranges, its sizes.

A lock is foreign, whether it is a class or a program. An answer that is none says nothing about the lock's promise, so
it is not recorded, and the run ends.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import LATEST_NS
from workloads.base import Lease

LONGEST_TEXT: Final = 65_536
"""Of a value or a key on a node, in characters."""
_LONGEST_MS: Final = LATEST_NS // 1_000_000
_DESCRIPTION_BYTES: Final = 65_536
_DESCRIPTION_DEPTH: Final = 16


def checked_lease(verb: str, answer: object, key: str) -> Lease | None:
    """What acquire or extend returned for this key. Raises BrokenEnvironmentError unless that is a lease or None."""
    if answer is None:
        return None
    if not isinstance(answer, Lease):
        raise _wrong(verb, f"{_shown(answer)}; it must return a Lease, or None if it was refused")
    if answer.key != key:
        raise _wrong(verb, f"a lease of the key {_shown(answer.key)}; it was asked for {key}")
    _text(verb, "value", answer.value)
    _duration(verb, "validity_ms", answer.validity_ms)
    _duration(verb, "granted_ms", answer.granted_ms)
    if answer.granted_ms is not None and answer.granted_ms <= 0:
        raise _wrong(verb, f"granted_ms {answer.granted_ms:g}; it must be more than 0")
    if not isinstance(answer.open_ended, bool):
        raise _wrong(verb, f"open_ended {_shown(answer.open_ended)}; it must be True or False")
    if answer.open_ended:
        for name in ("validity_ms", "granted_ms", "deadline_ns"):
            if getattr(answer, name) is not None:
                raise _wrong(verb, f"{name} of a lease that is open_ended; leave one of them out")
    for name in ("deadline_ns", "computed_after_ns", "computed_before_ns", "requested_ns"):
        _whole(verb, name, getattr(answer, name), LATEST_NS)
    after_ns, before_ns = answer.computed_after_ns, answer.computed_before_ns
    if after_ns is not None and before_ns is not None and after_ns > before_ns:
        raise _wrong(verb, f"computed_after_ns {after_ns}, which is later than computed_before_ns {before_ns}")
    _whole(verb, "token", answer.token, 2**63 - 1)
    return answer


def checked_yes(verb: str, answer: object) -> bool:
    """What release or is_held returned. Raises BrokenEnvironmentError if that is neither yes nor no; 1 and 0, which
    scripts on a node return, are that too."""
    if isinstance(answer, int) and answer in (0, 1):
        return bool(answer)
    raise _wrong(verb, f"{_shown(answer)}; it must return True or False")


def checked_words(answer: object) -> str | None:
    """What take_error returned. Raises BrokenEnvironmentError unless it is text or None."""
    if answer is not None:
        _text("take_error", "words", answer)
    return answer  # type: ignore[return-value]


def checked_description(answer: object, processes: int = 0) -> bytes:
    """What describe returned, as JSON, with the number of the lock's own processes, if it has any and does not tell by
    which command. Raises BrokenEnvironmentError unless it is an object of a sensible size."""
    if not isinstance(answer, dict):
        raise _wrong("describe", f"{_shown(answer)}; it must return a dict")
    try:
        untold = processes and "command" not in answer
        encoded = msgspec.json.encode({"processes": processes, **answer} if untold else answer)
        depth = _depth(msgspec.json.decode(encoded))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _wrong("describe", f"a dict that cannot be written as JSON ({error})") from None
    if len(encoded) > _DESCRIPTION_BYTES or depth > _DESCRIPTION_DEPTH:
        raise _wrong(
            "describe",
            f"{len(encoded):,} bytes of JSON, {depth} levels deep; at most {_DESCRIPTION_BYTES:,} bytes and "
            f"{_DESCRIPTION_DEPTH} levels are kept",
        )
    return encoded


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _text(verb: str, name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise _wrong(verb, f"{name} {_shown(value)}; it must be text of at most {LONGEST_TEXT:,} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(verb, f"{name} {_shown(value)}, which cannot be written as UTF-8") from None


def _duration(verb: str, name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(verb, f"{name} {_shown(value)}; it must be a number")
    if not -_LONGEST_MS <= value <= _LONGEST_MS:  # nor is NaN
        raise _wrong(verb, f"{name} {_shown(value)}; it must be finite, and at most {_LONGEST_MS:,} ms")


def _whole(verb: str, name: str, value: object, largest: int, *, optional: bool = True) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(verb, f"{name} {_shown(value)}; it must be a whole number")
    if not -largest <= value <= largest:
        raise _wrong(verb, f"{name} {_shown(value)}; it must fit into 64 bits")


def _wrong(verb: str, what: str) -> BrokenEnvironmentError:
    return BrokenEnvironmentError(f"the lock's {verb} returned {what}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a stranger's __repr__, or a number with too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}…"
