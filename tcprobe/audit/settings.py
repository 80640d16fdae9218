"""The table ``[tool.tcprobe]`` of a pyproject.toml: defaults for the options of an audit, and of other verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert, field

from tcprobe.errors import UsageError, WrongFormat
from tcprobe.foreign import is_folder, is_there, read, real_path
from tcprobe.hardware import find_gpu
from tcprobe.schema.kinds import KernelKind, NamedKernel, UsesTc
from tcprobe.schema.model import InputShape
from tcprobe.schema.op import LARGEST_SIZE, known_size

MOST_BYTES: Final = 2_000_000  # of a pyproject.toml: hundreds of times the longest that people write
_MOST_DOTS: Final = 5_000  # in a line: reading a dotted key takes the square of its length
_LONGEST_TOLD: Final = 200  # characters of a value or an error
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
MODES: Final = ("auto", "traced", "source")
DTYPES: Final = ("float32", "tf32", "float16", "bfloat16", "float8")
LIBRARIES: Final = ("cublas10", "cublas11", "cublas12")
VERBS: Final = (
    *("profile", "sweep", "report", "compare", "baseline", "audit-shapes", "find-key-node", "calibrate"),
    *("doctor", "explain", "redact", "reproduce", "workloads"),
)
"""Tables of their own, which hold the options of a verb (`tcprobe.cli.app`)."""
FAIL_ON: Final = ("error", "warning", "note", "never")


class Settings(Struct, frozen=True):
    """What a pyproject.toml says; None and empty where it says nothing."""

    file: Path | None = None  # the pyproject.toml; None where there is none with a table for tcprobe
    # target_gpu, dtype, library, xla, batch_size, input_shapes, mode, fail_on: as the options of the same names.
    target_gpu: str | None = None
    dtype: str | None = None
    library: str | None = None
    xla: bool | None = None
    batch_size: int | None = None
    input_shapes: tuple[InputShape, ...] = ()
    mode: str | None = None
    fail_on: str | None = None
    fail_over: float | None = None  # percent of the step, 0-100
    # select, ignore: codes or prefixes of codes.
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    # codes or prefixes to ignore by pattern of path, relative to the folder of `file`
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()  # patterns of files to leave out, relative to the same folder
    kernels: tuple[NamedKernel, ...] = ()  # what the user says of kernels whose names do not tell; of reports
    baseline: Path | None = None  # absolute path of the file of known findings
    baselines: Path | None = None  # absolute path of the folder of named baselines of runs


def find_settings(path: Path) -> Settings:
    """Return the settings of the nearest pyproject.toml at or above `path` that has a table for tcprobe.

    Raises:
        UnreadableInput, WrongFormat: a pyproject.toml on the way cannot be read, is no file, or is no TOML.
        UsageError: a key is unknown or has a value that it cannot have; names file and key.
    """
    found = _nearest(path)
    return _settings(*found) if found is not None else Settings()


def table_of_verb(path: Path, verb: str) -> tuple[Path, dict[str, Any]] | None:
    """Return the table ``[tool.tcprobe.VERB]`` of that pyproject.toml, and which it is; None where it has none.

    Raises:
        UnreadableInput, WrongFormat: as `find_settings`.
        UsageError: it is no table.
    """
    found = _nearest(path)
    table = found[1].get(verb) if found is not None and isinstance(found[1], dict) else None
    if found is None or table is None or (verb in _READERS and isinstance(table, str)):  # baseline = "FILE"
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{found[0]}: tool.tcprobe.{verb} is no table")
    return found[0], table


def _nearest(path: Path) -> tuple[Path, Any] | None:
    start = real_path(path)
    for folder in (start, *start.parents) if is_folder(start) else start.parents:
        file = folder / "pyproject.toml"
        if is_there(file) and (table := _table(file)) is not None:
            return file, table
    return None


def _table(file: Path) -> Any:
    import tomllib  # most audits find no such file, and start the sooner

    try:
        text = read(file, MOST_BYTES)
        if max(line.count(b".") for line in text.split(b"\n")) > _MOST_DOTS:
            raise WrongFormat(file, f"is too long: more than {_MOST_DOTS:,} dots in a line")
        tool = tomllib.loads(text.decode()).get("tool")
    except RecursionError:
        raise WrongFormat(file, "is no TOML that can be read: it is nested too deeply") from None
    except ValueError as error:  # of TOML, of UTF-8, of a number of too many digits
        raise WrongFormat(file, f"is no TOML: {_short(str(error))}") from error
    return tool.get("tcprobe") if isinstance(tool, dict) else None


def _settings(file: Path, table: Any) -> Settings:
    if not isinstance(table, dict):
        raise UsageError(f"{file}: tool.tcprobe is no table")
    given: dict[str, Any] = {"file": file}
    for key, value in table.items():
        if key in VERBS and (isinstance(value, dict) or key not in _READERS):
            continue
        if key not in _READERS:
            near = _near(key, _READERS)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(_READERS)}"
            raise UsageError(f"{file}: tool.tcprobe has no key {_told(key)}", hint)
        read, expected = _READERS[key]
        try:
            given[_FIELDS.get(key, key.replace("-", "_"))] = read(value)
        except (ValueError, OverflowError) as error:
            why = None if isinstance(error, ValidationError) else str(error) or None
            raise UsageError(f"{file}: tool.tcprobe.{key} = {_told(value)}: expected {expected}", why) from error
    for name in given.keys() & {"baseline", "baselines"}:
        given[name] = file.parent / given[name]
    return Settings(**given)


def _told(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        return _short(repr(value))
    except (ValueError, RecursionError):  # a number of too many digits, lists in lists
        return "..."


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}..."


def _near(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.5)), None)


def percentage(text: str | float) -> float:
    """Return ``5``, ``5%`` or ``5 %`` as a number of percent.

    Raises:
        ValueError: it is no number from 0 to 100.
    """
    if isinstance(text, bool):
        raise ValueError
    try:
        value = float(text.strip().removesuffix("%") if isinstance(text, str) else text)
    except (TypeError, ValueError):
        raise ValueError from None
    if not 0 <= value <= 100:
        raise ValueError
    return value


def codes(value: str | list[str]) -> tuple[str, ...]:
    """Return codes or prefixes from a list, or from text with commas; in upper case, each once.

    Raises:
        ValueError: it is no such thing.
    """
    parts = value.split(",") if isinstance(value, str) else convert(value, list[str])
    return tuple(dict.fromkeys(part.strip().upper() for part in parts if part.strip()))


def input_shapes(value: str | list[str]) -> tuple[InputShape, ...]:
    """Return ``224,224,3`` or ``NAME=224,224,3``, or a list of these, as shapes of inputs.

    Raises:
        ValueError: it is no such thing.
    """
    return tuple(map(_input_shape, [value] if isinstance(value, str) else convert(value, list[str])))


def _input_shape(text: str) -> InputShape:
    name, equals, sizes = text.rpartition("=")
    found = tuple(int(size) for size in sizes.split(","))
    if None in map(known_size, found) or (equals and not name.strip()):
        raise ValueError
    return InputShape(name.strip() or None, found)


def _gpu(value: Any) -> str:
    try:
        find_gpu(convert(value, str))
    except UsageError as error:
        raise ValueError(error.hint) from error
    return str(value)


def _as(kind: Any) -> Callable[[Any], Any]:
    return partial(convert, type=kind)


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            near = _near(value, words) if isinstance(value, str) else None
            raise ValueError(f"did you mean {near}?" if near else "")
        return str(value)

    return read


def _by_file(value: Any) -> dict[str, tuple[str, ...]]:
    return {pattern: codes(listed) for pattern, listed in convert(value, dict[str, str | list[str]]).items()}


class _Kernel(Struct, forbid_unknown_fields=True):
    """A `NamedKernel` as it is written."""

    pattern: _Text
    why: _Text
    uses_tc: UsesTc = field(name="class", default="unknown")
    kind: KernelKind = "unknown"


def _kernels(value: Any) -> tuple[NamedKernel, ...]:
    return tuple(NamedKernel(k.pattern, k.uses_tc, k.kind, k.why) for k in convert(value, list[_Kernel]))


_READERS: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "target-gpu": (_gpu, "the name of a GPU"),
    "dtype": (_one_of(*DTYPES), f"one of {', '.join(DTYPES)}"),
    "library": (_one_of(*LIBRARIES), f"one of {', '.join(LIBRARIES)}"),
    "xla": (_as(bool), "true or false"),
    "batch-size": (_as(Annotated[int, Meta(ge=1, le=LARGEST_SIZE)]), "a whole number from 1"),
    "input-shape": (input_shapes, 'sizes of one sample with commas, or a list of these: "224,224,3"'),
    "mode": (_one_of(*MODES), f"one of {', '.join(MODES)}"),
    "select": (codes, "a list of codes"),
    "ignore": (codes, "a list of codes"),
    "fail-on": (_one_of(*FAIL_ON), f"one of {', '.join(FAIL_ON)}"),
    "fail-over": (percentage, "a number of percent from 0 to 100"),
    "per-file-ignores": (_by_file, "a table of patterns and lists of codes"),
    "exclude": (_as(tuple[_Text, ...]), 'a list of patterns: ["tests/styles", "*.gen.py"]'),
    "kernels": (_kernels, "tables with pattern, class (yes, no), kind and why"),
    "baseline": (_as(_Text), "the name of a file"),
    "baselines": (_as(_Text), "the name of a folder"),
}
_FIELDS: Final = {"input-shape": "input_shapes"}
"""Keys whose field has another name."""
