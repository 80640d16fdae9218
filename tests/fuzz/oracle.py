"""What must hold for any input: the exit code, the text of an error, the text and figures of a report."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from tests.fuzz.door import Call, Said, where

HIDDEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
"""Unicode's categories that no terminal may get: control, format (bidi, zero width), separators, lone surrogates."""
PLAIN: Final = re.compile("[\n -~]*")
COMMANDS: Final = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)
"""What GitHub Actions or Azure DevOps would obey in what is printed."""
LONGEST: Final = 200_000  # characters of a line: a table's row has a few long names
NOT_FINITE: Final = re.compile(r"(?<![\w./-])[-+]?(nan|inf)(?![\w./-])", re.IGNORECASE)
CODES: Final = {"report": (0, 2), "audit-shapes": (0, 1, 2), "calibrate": (0, 2)}
LINE: Final = re.compile(r"(tcprobe: |hint: |Next: |Wrote |Warning: |Usage: |Try |Error: |\s*$)")
WHOLE: Final = ("calls", "launches", "count", "rows", "steps")


def problems(call: Call, said: Said, names: str, finite: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a call, each as a class and a detail.

    Args:
        call: the command line.
        said: what it left.
        names: what the message of an InputError must contain.
        finite: whether the input holds no word for infinity or NaN, so that none may be printed.
    """
    verb = call.arguments[0]
    if said.bug is not None:
        yield f"exit 3: {type(said.bug).__name__} at {where(said.bug)}", f"{said.bug}"[:300]
        return
    if said.code not in CODES[verb]:
        yield f"exit {said.code}", said.err.decode("utf-8", "replace")[:300]
        return
    error = said.err.decode("utf-8")
    yield from _shown("stderr", error)
    yield from _stderr(verb, said.code, error)
    try:
        out = said.out.decode("utf-8")
    except UnicodeDecodeError:
        yield f"{call.format}: no UTF-8", ""
        return
    if call.format in ("text", "markdown", "github", "junit", "show"):
        yield from _shown(call.format, out)
        if finite and (found := NOT_FINITE.search(out)):
            yield f"{call.format}: NaN or infinity", out[max(0, found.start() - 60) : found.end() + 20]
    if call.format in ("text", "markdown") and (found := COMMANDS.search(out)):
        yield f"{call.format}: commands a CI machine", out[found.start() :][:80]
    if call.format in ("text", "markdown") and (longest := max(map(len, out.split("\n")))) > LONGEST:
        yield f"{call.format}: long line", f"{longest} characters"
    if call.format in ("json", "sarif"):
        yield from _json(said.code, out, names, call.format)


def _shown(what: str, text: str) -> Iterator[tuple[str, str]]:
    if PLAIN.fullmatch(text):
        return
    bad = {c for c in set(text) if c != "\n" and unicodedata.category(c) in HIDDEN}
    if bad:
        at = min(map(text.index, bad))
        kind = "control" if unicodedata.category(text[at]) == "Cc" else "formatting"
        yield f"{what}: {kind} character", repr(text[max(0, at - 60) : at + 20])


def _stderr(verb: str, code: int, text: str) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    strange = [line for line in lines if not LINE.match(line)]
    if strange:
        kind = next((w for w in re.findall(r"\w+Warning", text)), "more than one line" if code == 2 else "strange line")
        yield f"stderr: {kind}", repr(text[-400:])
    elif max(map(len, lines)) > LONGEST:
        yield "stderr: long line", text[:300]
    elif code == 2 and "error: " not in text and verb != "audit-shapes":
        yield "stderr: no error for exit 2", repr(text[-400:])


def _json(code: int, text: str, names: str, format_: str) -> Iterator[tuple[str, str]]:
    if not text and code == 2:
        return
    try:
        made = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        yield f"{format_}: does not parse", f"{error}: {text[:200]!r}"
        return
    error = made.get("error") if isinstance(made, dict) else None
    if code == 2 and isinstance(error, dict):
        message = str(error.get("message"))
        if str(error.get("code")).startswith("E2") and names not in message:
            yield "error: does not name the file", message[:300]
    elif format_ == "json":
        yield from _figures(made, "")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _figures(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield the figures of a report that cannot be: a percentage outside 0-100, a time below 0, half a launch."""
    if isinstance(value, dict):
        for name, inner in value.items():
            # run.json is as it is; padding may cost more than it saves.
            if name != "run" and not name.startswith("saving"):
                yield from _figures(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _figures(inner, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            yield f"json: {key} is not finite", str(value)
        elif key.endswith("_pct") and not -1e-9 <= value <= 100 + 1e-6 and "change" not in key:
            yield f"json: {key} outside 0-100", str(value)
        elif key.endswith(("_ns", "_bytes")) and value < 0 and key != "start_ns":  # a clock may start anywhere
            yield f"json: {key} below 0", str(value)
        elif key in WHOLE and value % 1:
            yield f"json: {key} not whole", str(value)
