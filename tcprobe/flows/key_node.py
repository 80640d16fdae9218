"""`find-key-node` as a function, and `profile` with a key node that is found in a short run first."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.key_node import find_key_nodes
from tcprobe.capture.dlprof import DLPROF, ask_build
from tcprobe.capture.folder import refuse
from tcprobe.capture.program import missing
from tcprobe.errors import Interrupted, MeasurementFailed, TcprobeError, ToolError, UsageError
from tcprobe.flows.profile import ProfileOptions, ProfileOutcome, profile
from tcprobe.flows.workloads import packaged
from tcprobe.flows.write import Say
from tcprobe.foreign import input_path
from tcprobe.readers import READERS
from tcprobe.readers.open import find_formats, open_profile
from tcprobe.report.key_node import chosen_because, why_none
from tcprobe.schema.key_nodes import Candidate, KeyNodes
from tcprobe.schema.profile import Note
from tcprobe.schema.records import as_dict

AUTO: Final = "auto"
SEARCH_SECONDS: Final = 60.0
"""Length of DLProf's short run where no other is asked for: import, compilation and some steps."""
SHORT: Final = "key-node"
"""Folder of the short run in the run folder of the real one."""
FEW_REPORTS: Final = "--reports=summary,detail"
SIGNALLED: Final = 128


class Search(Struct, frozen=True):
    """What a search found, and where."""

    found: KeyNodes  # with at least one candidate
    path: Path  # the profile, or the run folder of the short run
    ran: tuple[str, ...] = ()  # the workload and its arguments; empty where a profile was given


def profile_named(words: tuple[str, ...]) -> Path | None:
    """Return the profile that the words name; None if they name a workload.

    What lies there decides: a folder is one, and a file with an ending other than a script's; a file without an ending,
    or with the name of a workload that comes with tcprobe, is one if it holds one. Where nothing is, a name with an
    ending or with folders is taken for a profile that is missing.

    Raises:
        UsageError: there is no word, or words follow the profile.
    """
    if not words:
        raise UsageError("no profile and no workload given", "as in: tcprobe find-key-node tcprobe-runs/MY-RUN")
    first = words[0]
    path = input_path(first)
    if first == "-m" or path.suffix == ".py" or not _is_profile(first, path):
        return None
    if len(words) > 1:
        alone = "name the profile alone; a workload is a script, -m MODULE, or comes with tcprobe (tcprobe workloads)"
        hint = "options stand before it" if words[1].startswith("-") else alone
        raise UsageError(f"{first} is a profile, and {shlex.quote(words[1])} follows it", hint)
    return path


def _is_profile(word: str, path: Path) -> bool:
    comes_with = packaged(word) is not None
    if path.exists() and (comes_with or not (path.is_dir() or path.suffix)):
        return bool(find_formats(path, READERS))
    return not comes_with and (path.exists() or bool(path.suffix) or len(path.parts) > 1)


def find_key_node(options: ProfileOptions, say: Say = lambda _: None) -> Search:
    """Search a profile, or a short run of a workload, for what fires once in each step.

    Args:
        options: `words` name the profile or the workload; the rest is how to run that.
        say: called with one line for each thing that happens.

    Raises:
        MeasurementFailed: nothing fires once in each step, or nothing can tell.
        TcprobeError: whatever reading the profile or running the workload raises.
    """
    path = profile_named(options.words)
    if path is not None:
        return Search(_searched(path), path)
    outcome = profile(_short(options), stdout_to_stderr=True, say=say)
    say(f"run folder kept: {shlex.quote(str(outcome.folder))}")
    try:
        found = _searched(outcome.folder)
    except TcprobeError as error:
        if outcome.interrupted:
            raise Interrupted from error
        if outcome.workload_code == 0:
            raise
        raise MeasurementFailed(f"{outcome.ending or 'the workload failed'}: {error.message}", error.hint) from error
    if outcome.workload_code != 0:
        say(f"{outcome.ending or 'the workload failed'}: what was recorded until then was searched")
    return Search(found, outcome.folder, options.words)


def _searched(path: Path) -> KeyNodes:
    found = find_key_nodes(open_profile(path))
    if found.best is None:
        message, remedy = why_none(found)
        raise MeasurementFailed(f"{path}: {message}", remedy)
    return found


def _short(options: ProfileOptions) -> ProfileOptions:
    """Return the options of a short run: with DLProf where there is one, and then with the reports that count."""
    if not _takes_dlprof(options):
        return options
    asked = options.dlprof
    seconds = asked.duration_s
    if seconds is None and "--duration" in ask_build(options.launcher).flags:
        seconds = SEARCH_SECONDS
    reports = () if any(word.startswith("--reports") for word in asked.args) else (FEW_REPORTS,)
    asked = replace(asked, key_node=None, duration_s=seconds, args=(*asked.args, *reports))
    return replace(options, profiler="dlprof", dlprof=asked)


def _takes_dlprof(options: ProfileOptions) -> bool:
    """Say whether the short run is DLProf's: as asked for, else where it can be started."""
    if options.profiler != "auto" or missing(DLPROF, options.launcher):
        return options.profiler == "dlprof"
    try:
        ask_build(options.launcher)
    except ToolError:
        return False
    return True


def profile_by_key_node(
    options: ProfileOptions, stdout_to_stderr: bool = False, say: Say = lambda _: None
) -> ProfileOutcome:
    """Run a workload as `profile` does; with the key node ``auto``, find one in a short run of it first.

    Where none is found the run goes on without, and a note says why. A workload that fails in the short run, or is
    interrupted there, is not run again: that run is what is returned.

    Raises:
        TcprobeError: as `profile`.
    """
    if options.dlprof.key_node != AUTO or options.profiler not in ("auto", "dlprof"):
        return profile(options, stdout_to_stderr, say)
    if options.output is not None:
        refuse(options.output, options.force)
    short = _short(replace(options, profiler="dlprof", output=_aside(options.output)))
    say("looking for a key node in a short run first")
    first = profile(short, stdout_to_stderr, say)
    found, why = _found_in(first)
    if first.cut or (found is None and 0 < (first.workload_code or 0) < SIGNALLED):
        return first
    key = None if found is None or found.best is None else found.best.fired.key
    say(why if key is None else f"key node {key}: {why}")
    again = replace(
        options,
        profiler="dlprof",
        dlprof=replace(options.dlprof, key_node=key),
        key_node=_record(found, why),
        notes=() if key is not None else (_none_found(why),),
    )
    try:
        outcome = profile(again, stdout_to_stderr, say)
    except TcprobeError:
        say(f"run folder kept: {shlex.quote(str(first.folder))}")
        raise
    with suppress(OSError):  # then it stays where it is
        first.folder.rename(outcome.folder / SHORT)
    return outcome


def _aside(output: Path | None) -> Path | None:
    """Return where the short run is written: beside the real one, whose folder takes it in when both are done."""
    return None if output is None else output.with_name(f"{output.name}.{SHORT}")


def _found_in(outcome: ProfileOutcome) -> tuple[KeyNodes | None, str]:
    """Return what the short run tells and why the best was chosen; None, and why there is none."""
    try:
        found = find_key_nodes(open_profile(outcome.folder))
    except TcprobeError as error:
        return None, error.message
    return (None, why_none(found)[0]) if found.best is None else (found, chosen_because(found))


def _none_found(why: str) -> Note:
    return Note(
        "no-key-node-found",
        f"--key-node auto found none in its short run ({why}): DLProf counts as if none were given",
        "name one: tcprobe find-key-node shows what fires how often",
    )


def _record(found: KeyNodes | None, why: str) -> dict[str, Any]:
    """Return what run.json says of the search."""
    base: dict[str, Any] = {"asked": AUTO, "chosen": None, "searched": SHORT, "why_none": None}
    if found is None or found.best is None:
        return {**base, "why_none": why}
    return {**base, "chosen": found.best.fired.key, **_grounds(found, found.best)}


def _grounds(found: KeyNodes, best: Candidate) -> dict[str, Any]:
    return {
        "steps": found.steps,
        "steps_basis": found.basis,
        "ops_that_agree": found.agreeing,
        "ops_weighed": found.among,
        "candidate": as_dict(best),
    }
