"""Find secrets in command lines and other text, and mask them: what names a secret, and what looks like one.

Sources: GitHub Docs, "About authentication to GitHub"; GitLab Docs, "Token prefixes"; AWS IAM User Guide, "IAM
identifiers" (unique ID prefixes); Slack and Google Cloud documentation on tokens and API keys; RFC 7519 (JWT), RFC 7468
(PEM), RFC 3986 (userinfo of a URL), RFC 9110 (Authorization, Cookie); gitleaks, config/gitleaks.toml, for the others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

MASK: Final = "***"
REDACTED: Final = "TCPROBE_REDACTED"
"""The variable that stands for those which were taken out of a recording."""
Span = tuple[int, int]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


NAMES: Final = _set(
    "token password passwords passwd passphrase passcode pwd pw secret secrets credential credentials cred creds auth "
    "authorization bearer cookie jwt apikey authkey apitoken authtoken accesskey secretkey accesstoken pgpassword"
)
"""Last words of names whose values are secrets: ``--hf-token``, ``DB_PASSWORD``, ``clientSecret``."""
KEYS: Final = _set(
    "api access secret private auth account encryption signing license subscription storage master session shared ssh "
    "gpg wandb openai anthropic hf ngc nvidia comet neptune aws azure gcp google s3 minio deploy service"
)
"""Words before a last word ``key`` that make it a secret; the key of a dictionary or a column is none."""
PAIRS: Final = {
    "string": _set("connection"),
    "pass": _set("db user mysql smtp ftp proxy root admin sudo"),
    "pat": _set("github gitlab azure"),
    "key": KEYS,
}
"""Last words that name a secret behind these only."""
TOKENS_OF_TEXT: Final = _set(
    "pad eos bos unk mask cls sep sos eot oov bot start end begin stop image img audio video special blank word filler "
    "ignore target source trigger placeholder prompt decoder next new first last class per max min num split separator"
)
"""Words before ``token`` that make it one of a text: ``--pad-token``."""
IN_QUERIES: Final = frozenset({"key", "sig", "signature", "code", "x-amz-signature", "x-goog-signature"})
"""Names whose values are secrets in the query of a URL, besides `NAMES`."""
HARMLESS: Final = frozenset({"", "true", "false", "yes", "no", "on", "off", "none", "null", "auto", MASK})
FILES: Final = re.compile(
    r"(?:~|\.{0,2})/|[A-Za-z]:\\|.*\.(?:json|pem|key|pub|crt|cer|p12|txt|ya?ml|toml|env|ini|cfg)$", re.DOTALL
)
"""Values that are paths: a file that holds a secret is none itself."""
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Every pattern is linear: one start for each run of its characters, and possessive repeats.
_SHAPES: Final = re.compile(
    r"(?<![\w-])(?:"
    r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|glpat-[\w-]{20,}+|"  # GitHub, GitLab
    r"hf_[A-Za-z0-9]{20,}+|api_org_[A-Za-z0-9]{20,}+|nvapi-[\w-]{20,}+|r8_[A-Za-z0-9]{20,}+|gsk_[A-Za-z0-9]{20,}+|"
    r"sk-(?:proj|svcacct|admin|ant|or)-[\w-]{16,}+|sk-[A-Za-z0-9]{20,}+|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|"
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Z0-9])|"  # AWS
    r"AIza[\w-]{35}|ya29\.[\w.-]{20,}+|GOCSPX-[\w-]{20,}+|"  # Google
    r"xox[abeoprs]-[\w-]{10,}+|xapp-[\w-]{10,}+|"  # Slack
    r"npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}+|dckr_pat_[\w-]{20,}+|dop_v1_[a-f0-9]{40,}+|dapi[a-f0-9]{32}|"
    r"SG\.[\w-]{16,}+\.[\w-]{16,}+|"
    r"eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"  # JSON Web Token
    r")|hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{20,}+"
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*",
    re.DOTALL,
)
_USERINFO: Final = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*+)://([^\s\"'<>?#]*+)")
_NAME: Final = re.compile(r"(?<![\w.-])([\w.-]++)(?:=|[\"']\s{0,9}+[:=]\s{0,9}+)")
_OPTION: Final = re.compile(r"(?<![\w-])--?([A-Za-z][\w.-]*+)[ \t]++(?!-)")
_VALUE: Final = re.compile(r"\"([^\"]*+)\"|'([^']*+)'|([^\s\"'&,;)\]}]++)")
_HEADER: Final = re.compile(
    r"(?<![\w-])(?:(?:proxy-)?authorization|(?:x-)?api-key|x-[a-z]{1,20}-(?:key|token)|private-token|(?:set-)?cookie)"
    r"[ \t]{0,9}+:[ \t]{0,9}+([^\r\n\"']++)",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?<![\w-])bearer[ \t]++([\w.~+/=-]{8,}+)", re.IGNORECASE)
_WHOLE_ASSIGNED: Final = re.compile(r"([\w.+-]*+)=")

LEAST_KNOWN: Final = 4
LEAST_KNOWN_DIGITS: Final = 6
DEEPEST: Final = 40
"""Nesting of a record that is looked into: tcprobe writes none deeper than six."""


def is_secret(name: str) -> bool:
    """Say whether a name (of an option, a variable, a key) is one of a secret's: by its last words."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    while parts and parts[-1].isdigit():
        parts.pop()
    if not parts:
        return False
    before, last = parts[-2] if len(parts) > 1 else "", parts[-1]
    if last == "token":
        return before not in TOKENS_OF_TEXT
    return last in NAMES or before in PAIRS.get(last, ())


def without_secrets(text: str) -> str:
    """Return a message without the secrets in it, those of our own command line above all."""
    return mask_text(text, secrets_in(sys.argv))


def mask_text(text: str, known: Iterable[str] = ()) -> str:
    """Return `text` with the secrets in it masked, and with every value of `known`."""
    return _cut(text, [*_in_text(text), *_in_values(text, known)])


def mask_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line, as many, with the secrets in them masked."""
    return tuple(_cut(word, spans) for word, spans in zip(words, _in_words(words), strict=True))


def secrets_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the secrets in a command line that are worth looking for in other text, longest first.

    What is short, or a short number, would be found everywhere.
    """
    found = {word[first:last] for word, spans in zip(words, _in_words(words), strict=True) for first, last in spans}
    return tuple(sorted((value for value in found if _worth_finding(value)), key=lambda value: (-len(value), value)))


def mask_tree(value: Any, known: Sequence[str] = (), depth: int = 0) -> Any:
    """Return decoded JSON with the secrets of its strings masked: a list of strings counts as a command line.

    What is nested deeper than `DEEPEST` becomes None.
    """
    if isinstance(value, str):
        return mask_text(value, known)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth > DEEPEST:
        return None
    if isinstance(value, dict):
        return {key: _mask_entry(key, held, known, depth) for key, held in value.items()}
    if all(isinstance(held, str) for held in value):
        value = mask_words(value)
    return [mask_tree(held, known, depth + 1) for held in value]


def _mask_entry(key: Any, held: Any, known: Sequence[str], depth: int) -> Any:
    if isinstance(key, str) and isinstance(held, str) and is_secret(key) and not _harmless(key, held):
        return MASK
    return mask_tree(held, known, depth + 1)


def _worth_finding(value: str) -> bool:
    return len(value) >= (LEAST_KNOWN_DIGITS if value.replace(".", "").isdigit() else LEAST_KNOWN)


def _cut(text: str, spans: Sequence[Span]) -> str:
    """Return `text` with each span replaced; spans may overlap."""
    parts, done = [], 0
    for first, last in sorted(spans):
        if last <= done:
            continue
        if first >= done:
            parts += [text[done:first], MASK]
        done = last
    return "".join([*parts, text[done:]])


def _in_values(text: str, values: Iterable[str]) -> Iterator[Span]:
    for value in values:
        at = text.find(value)
        while at >= 0:
            yield at, at + len(value)
            at = text.find(value, at + len(value))


def _in_words(words: Sequence[str]) -> Iterator[list[Span]]:
    """Yield the spans of each word."""
    option = ""
    for word in words:
        if option and not re.match(r"--?[A-Za-z]", word) and not _harmless(option, word):
            yield [(0, len(word))]
        else:
            yield [*_whole_value(word), *_in_text(word)]
        name = word.lstrip("-")
        option = name if word.startswith("-") and "=" not in word and is_secret(name) else ""


def _whole_value(word: str) -> Iterator[Span]:
    """Yield what stands behind ``NAME=`` up to the end of a word: no shell cuts a secret at a comma."""
    at = 0
    while (found := _WHOLE_ASSIGNED.match(word, at)) is not None:  # --env=TOKEN=x
        at = found.end()
        if is_secret(found[1]) and not _harmless(found[1], word[at:]):
            yield at, len(word)
            return


def _in_text(text: str) -> Iterator[Span]:
    for found in _SHAPES.finditer(text):
        yield found.span()
    if "://" in text:
        for found in _USERINFO.finditer(text):
            yield from _in_userinfo(found)
    for found in _NAME.finditer(text):
        in_query = found.start() > 0 and text[found.start() - 1] in "?&" and found[1].lower() in IN_QUERIES
        if in_query or is_secret(found[1]):
            yield from _value_of(found)
    for found in _OPTION.finditer(text):
        if is_secret(found[1]):
            yield from _value_of(found)
    for pattern in (_HEADER, _BEARER):
        for found in pattern.finditer(text):
            yield found.span(1)


def _value_of(name: re.Match[str]) -> Iterator[Span]:
    found = _VALUE.match(name.string, name.end())
    if found is not None and not _harmless(name[1], found[found.lastindex or 0]):
        yield found.span(found.lastindex or 0)


def _in_userinfo(found: re.Match[str]) -> Iterator[Span]:
    """Yield the password of a URL; without one, the user of a web address, which then is a token."""
    user, at, _ = found[2].rpartition("@")
    name, colon, password = user.partition(":")
    if not at or re.match(r"\d+/", password) or "/" in name:  # a port, or an @ in the path
        return
    start = found.start(2)
    if password and password != "x-oauth-basic":
        yield start + len(name) + len(colon), start + len(user)
    elif name and found[1].lower() in ("http", "https"):
        yield start, start + len(name)


def _harmless(name: str, value: str) -> bool:
    """Say whether a value behind a secret's name is none: a switch, a variable still to be filled in, a path."""
    if value.lower() in HARMLESS or value.startswith("$"):
        return True
    kept_as_text = any(
        part.lower() in ("password", "passwd", "passphrase", "pwd", "secret") for part in _PARTS.findall(name)
    )
    return not kept_as_text and FILES.match(value) is not None
