"""The messages in what went over connections to a Redis server, and where each of them ends.

Most chunks are exactly one message, or several, and many are the same, so each distinct chunk is read once. Requests in
the form in which every library writes them are even taken apart all at once; hiredis reads the others, and all replies.
A connection with a chunk that is not whole messages is read from its beginning, chunk by chunk. Both directions have
one format (RESP, https://redis.io/docs/latest/develop/reference/protocol-spec/): a request is an array like any reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import hiredis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.requests import Bools, Chunks, Ints

_LINE_END: Final = b"\r\n"
_LONGEST_LINE: Final = 1 << 16
"""Of a request without RESP (PROTO_INLINE_MAX_SIZE)."""
_HEAD: Final = re.compile(rb"([*$])(0|[1-9][0-9]{0,8})")
_REFUSALS: Final = (hiredis.ProtocolError, TypeError)
"""What hiredis raises; the second for a map whose key is a list."""
_EMPTY, _NO_HEAD = -(1 << 40), -(1 << 41)


class NotRedisError(Exception):
    """These bytes are not Redis's protocol."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Those of one direction, in the order of their connections. `code`: what each says; `end`: the length of its
    stream when it was complete. `is_broken`: by connection, whether what follows is not Redis's protocol. `said`: the
    messages that hiredis read; the codes below `plain` are those of the requests that were taken apart before."""

    connection: Ints
    code: Ints
    end: Ints
    is_broken: Bools
    said: list[Any]
    plain: int


def read_replies(chunks: Chunks) -> Messages:
    return _read(chunks, np.zeros(len(chunks.distinct), np.bool_), inline=False)


def read_requests(chunks: Chunks) -> tuple[Messages, pa.ListArray]:
    """With the words of the plain ones, by their codes."""
    is_plain, words = _plain(chunks.distinct)
    return _read(chunks, is_plain, inline=True), words


def _read(chunks: Chunks, is_plain: Bools, *, inline: bool) -> Messages:
    plain = int(is_plain.sum())
    count, first = is_plain.astype(np.int64), np.cumsum(is_plain) - 1
    said: list[Any] = []
    ends: list[int] = []
    others = chunks.distinct.filter(pa.array(~is_plain)).to_pylist()
    for place, whole in zip(np.flatnonzero(~is_plain).tolist(), _whole(others, inline=inline), strict=True):
        first[place], count[place] = plain + len(said), len(whole)
        said += (message for message, _ in whole)
        ends += (end for _, end in whole)
    length = chunks.length
    in_parts = np.zeros(chunks.connections, np.bool_)
    in_parts[chunks.connection[count[chunks.code] == 0]] = True
    is_whole = ~in_parts[chunks.connection]
    code, connection, length = chunks.code[is_whole], chunks.connection[is_whole], length[is_whole]
    chunk_end = _within(connection, np.cumsum(length))
    begin = chunk_end - length
    times = count[code]
    message = np.repeat(first[code] - np.cumsum(times) + times, times) + np.arange(times.sum())
    end_in_chunk = np.append(np.zeros(plain, np.int64), np.array(ends, np.int64))[message]
    end = np.where(message < plain, np.repeat(chunk_end, times), np.repeat(begin, times) + end_in_chunk)
    found = Messages(np.repeat(connection, times), message, end, np.zeros(chunks.connections, np.bool_), said, plain)
    return _with_parts(found, chunks, np.flatnonzero(in_parts), inline=inline) if in_parts.any() else found


def _within(connection: Ints, total: Ints) -> Ints:
    """These sums over all connections, as sums over each of them. (Its chunks are not empty.)"""
    starts = np.flatnonzero(np.diff(connection, prepend=-1))
    before = np.append(0, total)[starts]
    within: Ints = total - np.repeat(before, np.diff(np.append(starts, len(connection))))
    return within


def _with_parts(found: Messages, chunks: Chunks, connections: Ints, *, inline: bool) -> Messages:
    """And the messages of these connections."""
    edges = np.searchsorted(chunks.connection, [connections, connections + 1])
    own, ends = [], []
    for number, begin, until in zip(connections.tolist(), *edges.tolist(), strict=True):
        try:
            for message, end_in_stream in _in_order(
                chunks.distinct.take(chunks.code[begin:until]).to_pylist(), inline=inline
            ):
                found.said.append(message)
                own.append(number)
                ends.append(end_in_stream)
        except NotRedisError:
            found.is_broken[number] = True
    codes = np.arange(len(own)) + (found.plain + len(found.said) - len(own))
    connection = np.concatenate([found.connection, np.array(own, np.int64)])
    order = np.argsort(connection, kind="stable")
    code, end = np.concatenate([found.code, codes]), np.concatenate([found.end, np.array(ends, np.int64)])
    return Messages(connection[order], code[order], end[order], found.is_broken, found.said, found.plain)


# -- requests as every library writes them: *3 $3 SET $1 k $1 v ------------------------------------------------------


def _plain(distinct: pa.LargeBinaryArray) -> tuple[Bools, pa.ListArray]:
    """Which of the chunks are one such request of ASCII, and their words. Of these, every other line is a word, if no
    word has a line's end in it; and if the numbers in the lines between are right, none has."""
    may_be = pc.and_(pc.starts_with(distinct, b"*"), pc.string_is_ascii(distinct.view(pa.large_string())))
    lines = pc.split_pattern(distinct.filter(may_be), _LINE_END)
    begin, line = lines.offsets.to_numpy(), lines.flatten()
    count = np.diff(begin)
    chunk = np.repeat(np.arange(len(count), dtype=np.int32), count)
    place, until = np.arange(len(line), dtype=np.int32) - begin[:-1][chunk], count[chunk] - 1
    is_word = (place > 0) & (place % 2 == 0) & (place < until)
    length = np.append(pc.binary_length(line).to_numpy(), 0)
    expected = np.where(place == 0, -(until - 1) // 2, np.where(place == until, _EMPTY, length[1:]))
    heads = line.filter(pa.array(~is_word)).dictionary_encode()
    told = np.array([_number(head) for head in heads.dictionary.to_pylist()], np.int64)[heads.indices.to_numpy()]
    is_plain = (count % 2 == 0) & (count > 2)
    is_plain[chunk[~is_word][told != expected[~is_word]]] = False
    words = line.filter(pa.array(is_word & is_plain[chunk])).cast(pa.string())
    ends = np.append(0, np.cumsum(count[is_plain] // 2 - 1))
    found = may_be.to_numpy(zero_copy_only=False)
    found[np.flatnonzero(found)[~is_plain]] = False
    return found, pa.ListArray.from_arrays(pa.array(ends, pa.int32()), words)


def _number(head: bytes) -> int:
    """What a line tells: the length of a word, the number of words as a negative number, or nothing."""
    if (told := _HEAD.fullmatch(head)) is None:
        return _NO_HEAD if head else _EMPTY
    return int(told[2]) if told[1] == b"$" else -int(told[2])


# -- all others ------------------------------------------------------------------------------------------------------


def _whole(chunks: Iterable[bytes], *, inline: bool) -> Iterator[list[tuple[Any, int]]]:
    """The messages of each chunk and where they end in it; none if the chunk is more than these."""
    reader = _reader()
    for chunk in chunks:
        found: list[tuple[Any, int]] = []
        try:
            if inline and not chunk.startswith(b"*"):
                found += _lines(chunk, 0)
            else:
                reader.feed(chunk)
                found += _complete(reader, chunk)
        except (NotRedisError, *_REFUSALS):
            found = []
        is_whole = bool(found) and found[-1][1] == len(chunk)
        if not is_whole:
            reader = _reader()
        yield found if is_whole else []


def _complete(reader: hiredis.Reader, text: bytes) -> Iterator[tuple[Any, int]]:
    """The messages that the reader has of this text, which it was fed, and where they end in it."""
    message, at = reader.gets(), 0
    while message is not Ellipsis:
        at = len(text) if not reader.has_data() else _end_of(text, at)
        yield message, at
        message = reader.gets()


def _reader() -> hiredis.Reader:
    return hiredis.Reader(encoding="utf-8", errors="backslashreplace", notEnoughData=Ellipsis)


def _in_order(chunks: Iterable[bytes], *, inline: bool) -> Iterator[tuple[Any, int]]:
    """Each message of these chunks in a row, and where it ends. Raises NotRedisError."""
    reader = _reader()
    pending: list[bytes] = []
    end = 0
    try:
        for chunk in chunks:
            end += len(chunk)
            if inline and not pending and not chunk.startswith(b"*"):
                yield from _lines(chunk, end - len(chunk))
                continue
            reader.feed(chunk)
            message = reader.gets()
            if message is not Ellipsis and not reader.has_data():
                pending = []
                yield message, end
                continue
            pending.append(chunk)
            if message is Ellipsis:
                continue
            text, at = b"".join(pending), 0
            while message is not Ellipsis:
                at = _end_of(text, at)
                yield message, end - len(text) + at
                message = reader.gets()
            pending = [text[at:]] if at < len(text) else []
    except _REFUSALS:
        raise NotRedisError from None


def _end_of(text: bytes, at: int) -> int:
    """Where the message ends that begins there, all of which is known to be in the text."""
    line_end = text.index(_LINE_END, at)
    kind, count, at = text[at : at + 1], text[at + 1 : line_end], line_end + len(_LINE_END)
    if kind in b"$=!":
        return at if count == b"-1" else at + int(count) + len(_LINE_END)
    if kind in b"*~>%":
        for _ in range(max(0, int(count)) * (2 if kind == b"%" else 1)):
            at = _end_of(text, at)
    return at


def _lines(chunk: bytes, begin: int) -> Iterator[tuple[list[str], int]]:
    """Requests that are lines of words, which the server takes as well."""
    if not chunk.endswith(_LINE_END) or len(chunk) > _LONGEST_LINE:
        raise NotRedisError
    for line in chunk.split(_LINE_END)[:-1]:
        begin += len(line) + len(_LINE_END)
        if words := line.decode("utf-8", "backslashreplace").split():
            yield words, begin
