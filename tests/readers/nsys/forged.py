"""Databases whose pages are used over and over: few bytes that read as many rows, or as long texts.

Source of the layout: sqlite.org/fileformat2.html, sections 1.3, 1.5 and 1.6, and 2.1 for rows.
"""

from __future__ import annotations

from collections.abc import Sequence

INTERIOR, LEAF = 5, 13


def size_of(content: bytes) -> int:
    """Return the size of a page, in bytes."""
    size = int.from_bytes(content[16:18], "big")
    return 65536 if size == 1 else size


def shared(content: bytes, root: int, levels: int, fan: int) -> bytes:
    """Return a database in which a table's rows come `fan` to the power of `levels` times.

    Args:
        content: the database.
        root: number of the table's first page; not 1.
        levels: of pages between the first page and what it held; each level is one page.
        fan: how often each of them names the one below.
    """
    size = size_of(content)
    made = content + _page(content, root)
    for level in range(levels):
        below = len(made) // size
        cell = below.to_bytes(4, "big") + b"\1"
        one = _filled(size, INTERIOR, [cell], fan - 1, below)
        made = _counted(_put(made, root, one) if level == levels - 1 else made + one)
    return made


def chained(content: bytes, root: int, values: Sequence[int | bytes | None], long: int, rows: int) -> bytes:
    """Return a database in which a table holds one row many times; its long text lies on a page that follows itself.

    Args:
        content: the database.
        root: number of the table's first page.
        values: of the row, up to the long text.
        long: bytes of the text; it is cut so that as little of it as may be stands beside the row.
        rows: pointers to the row.
    """
    size = size_of(content)
    header = b"".join(map(_kind, values))
    local = (size - 12) * 32 // 255 - 23
    payload = long - (long - local) % (size - 4)
    before = sum(map(len, map(_bytes, values))) + len(header) + 1
    header += varint(13 + 2 * (payload - before - len(varint(2 * payload))))
    record = varint(len(header) + 1) + header + b"".join(map(_bytes, values))
    page = len(content) // size + 1
    text = b"t" * size
    cell = varint(payload) + b"\1" + (record + text)[:local] + page.to_bytes(4, "big")
    return _counted(_put(content, root, _filled(size, LEAF, [cell], rows, 0)) + page.to_bytes(4, "big") + text[4:])


def varint(value: int) -> bytes:
    """Return a number below 2**56 as SQLite writes it."""
    made = [value & 0x7F]
    while value := value >> 7:
        made.append(value & 0x7F | 0x80)
    return bytes(reversed(made))


def _kind(value: int | bytes | None) -> bytes:
    return b"\0" if value is None else b"\6" if isinstance(value, int) else varint(13 + 2 * len(value))


def _bytes(value: int | bytes | None) -> bytes:
    return b"" if value is None else value.to_bytes(8, "big", signed=True) if isinstance(value, int) else value


def _page(content: bytes, number: int) -> bytes:
    size = size_of(content)
    return content[(number - 1) * size : number * size]


def _put(content: bytes, number: int, page: bytes) -> bytes:
    size = size_of(content)
    return content[: (number - 1) * size] + page + content[number * size :]


def _filled(size: int, kind: int, cells: Sequence[bytes], times: int, right: int) -> bytes:
    """Return a page of a b-tree with the same cells, as often as given and as SQLite lets a page have."""
    last = right.to_bytes(4, "big") if kind == INTERIOR else b""
    body = b"".join(cells)
    times = min(times, (size - 8) // 6, (size - 12 - len(body)) // 2)
    start = size - len(body)
    head = bytes((kind, 0, 0)) + times.to_bytes(2, "big") + (start & 0xFFFF).to_bytes(2, "big") + b"\0" + last
    pointers = start.to_bytes(2, "big") * times
    return head + pointers + bytes(start - len(head) - len(pointers)) + body


def _counted(content: bytes) -> bytes:
    """Return a database whose header has the number of pages that it has."""
    pages = len(content) // size_of(content)
    return content[:28] + pages.to_bytes(4, "big") + content[32:92] + content[24:28] + content[96:]
