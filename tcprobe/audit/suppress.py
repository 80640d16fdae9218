"""Comments that silence findings: ``# noqa``, ``# noqa: TC101``, ``# tcprobe: ignore``, ``# tcprobe: ignore[TC101]``.

A comment speaks for the calls on its line; on a line of a longer statement where no other call stands, for all of the
statement. So one layer in a list is silenced on its own line, and the whole list behind its closing bracket.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from tcprobe.rules.registry import RETIRED
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Place, Unseen
from tcprobe.source.scopes import every_node
from tcprobe.source.source import Source

# After flake8's own pattern (PyCQA/flake8, src/flake8/defaults.py): codes may stand without a space behind the
# colon, separated by commas or spaces; what is no code ends the list.
_CODES: Final = r"[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]+)*"
_COMMENT: Final = re.compile(
    rf"#\s*(?:noqa\b(?:\s?:\s?(?P<noqa>{_CODES}))?|tcprobe:\s*ignore\b(?:\s*\[(?P<own>[^\]]{{0,1000}})\])?)",
    re.IGNORECASE,
)
_LONGEST_COMMENT: Final = 10_000  # characters; what a longer one silences behind these is not silenced
_HINT: Final = re.compile(r"#\s*(?:noqa|tcprobe:)", re.IGNORECASE)
# Codes of flake8-type-checking start with TC0 in ruff; those are none of ours.
_OURS: Final = re.compile(r"TC[1-9][0-9]*")


class Comment(Struct, frozen=True):
    """One suppressing comment."""

    place: Place  # of the comment itself
    text: str  # the comment itself, without what else stands in the same comment
    # codes or prefixes that it names, in upper case; an empty one where it names none, so that it silences all
    codes: tuple[str, ...]
    own: bool  # whether it speaks to tcprobe alone


class Judged(Struct, frozen=True):
    """What comments say of the findings."""

    suppressed: tuple[Finding, ...]
    unused: tuple[tuple[Place, str], ...]  # comments that silence nothing, with what of them is for nothing


class _File(Struct):
    """Comments of one file, and the first and last line of each statement and call."""

    comments: list[Comment]
    statements: list[tuple[int, int]]
    calls: list[tuple[int, int]]
    used: set[tuple[Comment, str]] = field(default_factory=set)


def comments_of(text: str, path: str) -> list[Comment]:
    """Return the suppressing comments of a file that parses, in their order; text in strings is none."""
    if not _HINT.search(text):
        return []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        _comment(match, path, token.start)
        for token in tokens
        if token.type == tokenize.COMMENT
        for match in _COMMENT.finditer(token.string, 0, _LONGEST_COMMENT)
    ]


def _comment(match: re.Match[str], path: str, start: tuple[int, int]) -> Comment:
    """Return a comment that begins at a line and column, that from 0, before what matched in it."""
    named = match["noqa"] or match["own"]
    column = start[1] + match.start() + 1
    place = Place(path, start[0], column, start[0], column + len(match[0]))
    own = "tcprobe" in match[0].lower().partition(":")[0]
    codes = [code.upper() for code in re.split(r"[\s,]+", named or "") if code]
    return Comment(place, match[0], tuple(codes or [""]), own)


def _says_something(text: str, path: str, codes: Collection[str]) -> bool:
    """Say whether a file may hold a comment that silences one of these codes, or is to silence one of tcprobe's.

    Most comments speak to other tools alone: to tell those from text in strings takes a third of the parsing.
    """
    for match in _COMMENT.finditer(text):
        comment = _comment(match, path, (1, 0))
        if any(_ours(comment, name) or any(code.startswith(name) for code in codes) for name in comment.codes):
            return True
    return False


def judge(findings: Iterable[Finding], sources: Mapping[str, Source], unseen: Iterable[Unseen] = ()) -> Judged:
    """Say which findings the comments of their files silence.

    Args:
        findings: of all rules, before any is left out by an option, so that no comment seems unused on that account.
        sources: parsed files by absolute path; comments of a file that is missing are not seen.
        unseen: what could not be judged; a comment on such a statement may be needed and is never called unused.
    """
    placed = [(f, f.place) for f in findings if f.place is not None]
    codes: dict[str, set[str]] = {}
    for finding, place in placed:
        codes.setdefault(place.file, set()).add(finding.code)
    heard = {path: s for path, s in sources.items() if _says_something(s.text, path, codes.get(path, ()))}
    commented = {path: comments for path, source in heard.items() if (comments := comments_of(source.text, path))}
    files = {path: _file(sources[path].tree, comments) for path, comments in commented.items()}
    silent = [finding for finding, place in placed if _speaks(place, files, finding.code)]
    for item in unseen:
        if item.place is not None:
            _speaks(item.place, files)
    return Judged(tuple(silent), tuple(_unused(files)))


def _file(tree: ast.Module, comments: list[Comment]) -> _File:
    nodes = every_node(tree)
    calls = [(node.lineno, node.end_lineno or node.lineno) for node in nodes if isinstance(node, ast.Call)]
    return _File(comments, [_extent(node) for node in nodes if isinstance(node, ast.stmt)], calls)


def _extent(node: ast.stmt) -> tuple[int, int]:
    """Return first and last line of a statement; of one with a body, those of its head."""
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body:
        return node.lineno, node.end_lineno or node.lineno
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return first, max(node.lineno, body[0].lineno - 1)


def _speaks(place: Place, files: Mapping[str, _File], code: str | None = None) -> bool:
    """Note what comments silence at a place, any code where none is given; return whether one does."""
    file = files.get(place.file)
    speaking = [(c, name) for c in _speaking(place, file) for name in c.codes] if file is not None else []
    speaking = [(c, name) for c, name in speaking if code is None or code.startswith(name)]
    if file is not None:
        file.used.update(speaking)
    return bool(speaking)


def _speaking(place: Place, file: _File) -> Iterator[Comment]:
    """Yield the comments that speak for what stands at a place."""
    first, last = place.line, place.end_line or place.line
    # The finding may stand at an argument; what it is about is the innermost call around it.
    around = [(a, b) for a, b in file.calls if a <= first and last <= b]
    first, last = min(around, key=lambda span: span[1] - span[0], default=(first, last))
    start, end = max(((a, b) for a, b in file.statements if a <= first <= b), default=(first, last))
    for comment in file.comments:
        line = comment.place.line
        if first <= line <= last or (start <= line <= end and not _others(line, (first, last), file)):
            yield comment


def _others(line: int, span: tuple[int, int], file: _File) -> bool:
    """Say whether another call stands on a line: none that holds the span, none within it."""
    on_line = [(a, b) for a, b in file.calls if a <= line <= b]
    return any(not (a <= span[0] <= b or span[0] <= a <= span[1]) for a, b in on_line)


def _unused(files: Mapping[str, _File]) -> Iterator[tuple[Place, str]]:
    """Yield what of comments silences nothing: codes of tcprobe's, and comments to tcprobe alone."""
    for file in files.values():
        for comment in file.comments:
            idle = [n for n in comment.codes if (comment, n) not in file.used and _ours(comment, n)]
            if idle:
                what = "" if idle == list(comment.codes) else f" ({', '.join(idle)})"
                yield comment.place, f"{comment.text}{what} silences nothing"


def _ours(comment: Comment, name: str) -> bool:
    return name not in RETIRED and (comment.own or bool(_OURS.fullmatch(name)))
