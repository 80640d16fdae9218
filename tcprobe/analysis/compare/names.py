"""Find which names of several runs mean one thing, though a framework numbered them anew.

TensorFlow and Keras number what is made again (``dense_1``), and functions (``__inference_step_123``); XLA numbers what
it fuses. Nothing else of a name is touched, and numbers only where the runs then agree as a whole.

Bring the names of kernels that tools print differently to one spelling, so that two runs can be joined by them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tcprobe.analysis.kernels.cxx import parse
from tcprobe.analysis.ops.paths import plain_path

_CXX: Final = re.compile(r"[<(]|::|^_Z")
_LAMBDA: Final = re.compile(r"\[lambda\(([^()]*)\) \(instance (\d+)\)\]")
_TOKEN: Final = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*|::|->|[^\s\w]")
_INTEGER: Final = re.compile(r"^(\d+)(?:[uU][lL]{0,2}|[lL]{1,2})$")
_CAST: Final = re.compile(r"(?<!\w )\( (?:[\w$]++ |:: |[<>,] )+\) (?=(?:- )?\d|true |false )")
_TRUTH: Final = {"true": "1", "false": "0"}
_BUILT_IN: Final = frozenset({"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"})
_BEFORE_CONST: Final = frozenset({"<", "(", ","})


def one_spelling(runs: Sequence[Iterable[str]]) -> list[dict[str, str]]:
    """Return for each run what to call each of its kernels: as the first run that has it spells it.

    Of names that are one kernel but for their spelling in one and the same run, each stays its own.
    """
    first: dict[str, str] = {}
    renamings = []
    for names in runs:
        keys = {name: _key(name) if _CXX.search(name) else name for name in sorted(set(names))}
        count = Counter(keys.values())
        renamings.append({name: first.setdefault(key, name) if count[key] == 1 else name for name, key in keys.items()})
    return renamings


def _key(name: str) -> str:
    """Return what of a name tells its kernel; Nsight Systems writes parameters of a template as T1, others by type."""
    parts = parse(name)
    told = f"<{parts.arguments}>" if parts.arguments is not None else f"({parts.parameters or ''})"
    return spelled(f"{parts.path}{told}{parts.suffix}")


def spelled(name: str) -> str:
    """Return the tokens of a C++ name, one blank between two, in one spelling whichever tool printed it.

    Casts of literals (``(int)4``, ``(bool)1``, ``(ns::Kind)0``) go, ``true`` is 1, integers lose their suffix,
    ``const T`` becomes ``T const`` and ``[lambda(int) (instance 1)]`` ``{lambda(int)#1}``. Nothing else is changed:
    names that differ in a type or a number stay apart.
    """
    name = _LAMBDA.sub(r"{lambda(\1)#\2}", name)
    text = _CAST.sub("", "".join(f"{token} " for token in _TOKEN.findall(name)))
    tokens = [_INTEGER.sub(r"\1", _TRUTH.get(token, token)) for token in text.split()]
    for at in range(len(tokens) - 2, -1, -1):  # from the right: a type may hold another
        if tokens[at] == "const" and (at == 0 or tokens[at - 1] in _BEFORE_CONST):
            end = _type_end(tokens, at + 1)
            tokens[at:end] = [*tokens[at + 1 : end], "const"]
    return " ".join(tokens)


def _type_end(tokens: Sequence[str], at: int) -> int:
    """Return where a type ends that begins at a token: behind its words, scopes and template arguments."""
    if tokens[at] in _BUILT_IN:
        while at < len(tokens) and tokens[at] in _BUILT_IN:
            at += 1
        return at
    depth = 0
    for here in range(at, len(tokens)):
        depth += (tokens[here] == "<") - (tokens[here] == ">")
        after = tokens[here + 1] if here + 1 < len(tokens) else ""
        if not depth and tokens[here] != "::" and after not in ("::", "<"):
            return here + 1
    return len(tokens)


_FUNCTION: Final = re.compile(r"(__(?:inference|forward|backward)_\w*?[A-Za-z_])_\d+(?!\w)")
_COUNTERS: Final = re.compile(r"((?:_\d{1,9}){0,3})$")
_COMPILED: Final = re.compile(
    r"^(?P<stem>[a-z][a-z_]*(?:fusion|wrapped|reduce|copy|broadcast|transpose)[a-z_]*)[._]\d[._\d]{0,60}$"
)
_WHOLE: Final = re.compile(r"[<(]|^_Z|::")
DEPTH: Final = 3
Renaming: TypeAlias = dict[str, str]
"""Name in a run -> name that it has in the comparison."""
_Counters: TypeAlias = tuple[int, ...]


def op_names(runs: Sequence[Iterable[str]]) -> list[Renaming]:
    """Return for each run what to call each of its ops: its plain path, with the numbers of an earlier run."""
    plain = [{name: _FUNCTION.sub(r"\1", plain_path(name)) for name in names} for names in runs]
    return _then(_then(plain, compiled_names), layer_names)


def _then(named: list[Renaming], rename: Callable[[Sequence[Iterable[str]]], list[Renaming]]) -> list[Renaming]:
    """Return the names that a further renaming gives those of each run."""
    again = rename([each.values() for each in named])
    return [{name: now[new] for name, new in each.items()} for each, now in zip(named, again, strict=True)]


def layer_names(runs: Sequence[Iterable[str]]) -> list[Renaming]:
    """Return for each run what to call each of its layers.

    Names that differ in counters alone are a family. Where all counters of a family are those of an earlier run, moved
    by the same numbers (``dense_2, dense_3`` of ``dense, dense_1``), each is the one of that run in the same place.
    Families of other sizes, or moved unevenly, stay as they are: a name may be the user's own.
    """
    pool: dict[str, dict[_Counters, str]] = {}
    renamings = []
    for names in runs:
        families: dict[str, dict[_Counters, str]] = defaultdict(dict)
        for name in sorted(set(names)):
            stem, counters = _counted(name)
            families[stem].setdefault(counters, name)
        renamed = {name: name for family in families.values() for name in family.values()}
        for stem, family in families.items():
            known = pool.setdefault(stem, {})
            renamed |= _moved(known, family)
            for counters, name in family.items():
                if renamed[name] == name:
                    known.setdefault(counters, name)
        renamings.append({name: renamed.get(name, name) for name in names})
    return renamings


def _counted(name: str) -> tuple[str, _Counters]:
    """Return a name without the counters of its parts, and these: 0 where a part has none."""
    stems, counters = [], []
    for part in name.split("/"):
        numbers = _COUNTERS.search(part)
        text = numbers[1] if numbers else ""
        stems.append(part[: len(part) - len(text)])
        counts = [int(n) for n in text.split("_")[1:]]
        counters += counts + [0] * (DEPTH - len(counts))
    return "/".join(stems), tuple(counters)


def _moved(known: dict[_Counters, str], family: dict[_Counters, str]) -> Renaming:
    """Return the names that a family has in an earlier run, where it is that one with its counters moved."""
    if len(known) != len(family) or known.keys() == family.keys():
        return {}
    before, after = sorted(known), sorted(family)
    shift = {tuple(b - a for a, b in zip(one, other, strict=True)) for one, other in zip(before, after, strict=True)}
    if len(shift) != 1:
        return {}
    return {family[other]: known[one] for one, other in zip(before, after, strict=True)}


def kernel_names(runs: Sequence[Iterable[str]]) -> list[Renaming]:
    """Return for each run what to call each of its kernels: by its function alone where a run tells no more of it.

    Some reports (DLProf's kernel report) give the names of functions without scopes, template arguments and parameters:
    ``fft2d_r2c_32x32`` is then all that can be joined with ``void fft2d_r2c_32x32<float, ...>(...)``. What tools spell
    in other ways is one kernel (`tcprobe.analysis.compare.names`).
    """
    given = [set(names) for names in runs]
    bare = [not any(_WHOLE.search(name) for name in names) for names in given]
    short = {name for names, is_bare in zip(given, bare, strict=True) if is_bare for name in names}
    cut = [
        {name: name if is_bare or not short else _function(name, short) for name in names}
        for names, is_bare in zip(given, bare, strict=True)
    ]
    return _then(_then(cut, one_spelling), compiled_names)


def _function(name: str, short: set[str]) -> str:
    function = parse(name).function if _WHOLE.search(name) else name
    return function if function in short else name


def compiled_names(runs: Sequence[Iterable[str]]) -> list[Renaming]:
    """Return for each run what to call each of its kernels.

    XLA's own names (``loop_add_fusion_12``) say little but what kind of loop it is: where the runs that have any of a
    kind do not have the same numbers, the kind is one row (``loop_add_fusion_*``). All other names stay as they are.
    """
    kinds = [defaultdict[str, set[str]](set) for _ in runs]
    given = [list(names) for names in runs]
    for names, kind in zip(given, kinds, strict=True):
        for name in names:
            if stem := _stem(name):
                kind[stem].add(name)
    every = {stem for kind in kinds for stem in kind}
    differs = {stem for stem in every if len({frozenset(k[stem]) for k in kinds if stem in k}) > 1}
    return [{n: f"{s}_*" if (s := _stem(n)) in differs else n for n in names} for names in given]


def _stem(name: str) -> str | None:
    """Return the kind of a kernel or op that XLA named; None of all others."""
    if name.endswith("fusion"):
        return name if re.fullmatch(r"[a-z][a-z_]*", name) else None
    matched = _COMPILED.match(name)
    return matched["stem"] if matched else None
