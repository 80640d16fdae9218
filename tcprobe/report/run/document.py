"""The document of a run's report; a part is built only when a renderer asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.formatting import any_text, full_number, since_step
from tcprobe.grouping import distinct_numbers, lasting_since
from tcprobe.report.document import (
    Added,
    Block,
    Cell,
    DataTable,
    Facts,
    Folded,
    Heading,
    LeftOut,
    Lines,
    NumberedList,
    Remark,
    Remarks,
    ReportSpec,
    Section,
    data_of,
    folded,
    spelt,
    wrapped_line,
)
from tcprobe.report.drawn import Drawn
from tcprobe.report.fields import cell_of, field_of, section
from tcprobe.report.run import about, advice, figures, findings, time_views, views
from tcprobe.report.run.causes import cause_table
from tcprobe.report.run.screen import data_of_screen, screen_of
from tcprobe.report.run.tables import data_table, view_section, written
from tcprobe.report.run.time_views import CHAIN_VIEW, View
from tcprobe.report.run.words import counted_phase
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.finding import Severity
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import as_dict

FIRST_SCREEN_ROWS: Final = 5
MOST_LISTED: Final = 100  # notes, and figures that the workload logged: a run has a dozen
NOTICEABLE_PCT: Final = 10.0


class RunDocument(Struct, frozen=True):
    """The report of an analysed profile, as a `tcprobe.report.document.Document`."""

    profile: Profile  # analysed
    spec: ReportSpec  # what was asked for
    # what a comparison adds: how the run differs from another one, what became of conditions
    added: Added = field(default_factory=Added)

    def screen(self) -> list[Block]:
        """Return the first screen; unless that is all, what was profiled, what to do in full, and the tables."""
        first: list[Block] = [screen_of(self.profile, self.spec.width)]
        if self.spec.brief and not self.spec.by:
            return [*first, *self.added.blocks]
        tables, absent = self._tables()
        lines = [wrapped_line(f"no {name.replace('_', ' ')}: {why}", indent="  ") for name, why in absent]
        closing: list[Block] = [Lines(tuple(lines)), LeftOut("--width 0 or --format csv shows all")]
        return [*first, *self.added.blocks, *self._middle(), *tables, *closing]

    def page(self) -> list[Block]:
        """Return the same under a title, with all but the first screen folded unless asked for by name."""
        if self.spec.web:
            return list(self._web())
        tables, absent = self._tables()
        shown: Iterable[Block] = tables if self.spec.by else map(folded, tables)
        lines = Lines(tuple(wrapped_line(f"no {name}: {why}") for name, why in absent), bullets=True)
        first = [Heading("Tensor Core report", 1), screen_of(self.profile), *self.added.blocks]
        return [*first, *map(self._aside, self._middle()), *shown, lines]

    def data(self) -> dict[str, Any]:
        """Return metadata, summary and tables as raw values; NA is None, times are ns, rows are those of the tables."""
        profile, top = self.profile, self.spec.rows_for_programs
        metadata, waiting = as_dict(profile.metadata), profile.waiting
        tables = {t.spec.name: t for t in written(profile, self.spec.by) if t.spec.name not in ("summary", "advice")}
        return data_of(
            {
                "metadata": {name: value for name, value in metadata.items() if name != "notes"},
                "summary": list(profile.require("summary").rows()),
                "tables": {name: _rows(table, top) for name, table in tables.items()},
                "advice": [advice.as_json(item) for item in profile.advice[:top]],
                "waiting": waiting and {**as_dict(waiting), "idle_pct": waiting.idle_pct},
                "loss_scale_need": profile.loss_scale_need and as_dict(profile.loss_scale_need),
                "tuning": profile.tuning and as_dict(profile.tuning),
                "start_up": profile.start_up and as_dict(profile.start_up),
                **data_of_screen(profile),
                "absent": dict(sorted(profile.absent.items())),
                "no_what_if": profile.no_what_if,
                "notes": metadata["notes"],
                **self.added.data,
            }
        )

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder; the summary always has all its rows."""
        top = self.spec.rows_for_programs
        found = written(self.profile, self.spec.by)
        return chain((data_table(t, None if t.spec.name == "summary" else top) for t in found), self.added.tables)

    def table(self) -> DataTable:
        """Return the table asked for, by default the kernels; UsageError if several were asked for."""
        name = views.BY[self.spec.one_table("kernel")].table
        return data_table(self.profile.require(name), self.spec.rows_for_programs)

    def _web(self) -> Iterator[Block]:
        """Yield the page of a browser: the first screen with pictures, what to do in full, every table."""
        from tcprobe.report.curves import curves_of, logged_of  # of a page alone
        from tcprobe.report.roofline import roofline_of
        from tcprobe.report.run import pictures
        from tcprobe.report.run.timeline import chart_of

        profile, spec = self.profile, self.spec
        yield Heading("Tensor Core report", 1)
        yield replace(screen_of(profile), first=pictures.first_of(profile))
        roofline, logged = roofline_of(profile), [("this run", logged_of(profile.require("metrics")))]
        roof = roofline if isinstance(roofline, Drawn) else None
        drawn = pictures.rings_of(profile), pictures.steps_of(profile), pictures.tree_of(profile), roof
        yield from filter(None, (*drawn, curves_of(logged), chart_of(profile)))
        yield from self.added.blocks
        yield NumberedList(advice.TITLE, advice.with_codes(profile))
        yield _notes(profile, ("error", "warning"))
        yield Heading("Tables", 2)
        wanted = [views.BY[name] for name in spec.by] if spec.by else views.EVERY
        found = list(filter(None, map(self._view, wanted)))
        if not spec.by:
            made = figures.figures(profile, first=True), findings.what_if_table(profile, spec.rows_for_people)
            why = cause_table(profile), findings.bad_size_table(profile, spec.rows_for_people)
            last = figures.figures(profile, first=False), _logged(profile, spec), _reported(profile, spec)
            found = [one for one in (*found, *why, *made, *last) if one]
        yield from (replace(folded(one), shown=at == 0) for at, one in enumerate(found))
        absent = [(v.table, why_absent(profile, v.table)) for v in wanted if not len(profile.require(v.table))]
        absent += [("roofline", roofline)] if isinstance(roofline, str) else []
        missing = Lines(tuple(wrapped_line(f"no {name}: {why}") for name, why in absent), bullets=True)
        about_it = Folded("What was profiled", (Facts(tuple(about.facts(profile))),))
        yield from (about_it, Folded("Tables that are not there", (missing,)), _notes(profile, ("note",)))

    def _aside(self, block: Block) -> Block:
        return folded(block) if isinstance(block, Section) else block

    def _middle(self) -> Iterator[Block]:
        """Yield what stands between the first screen and the tables: nothing where tables are asked for by name."""
        profile = self.profile
        if self.spec.by:
            return
        yield Facts(tuple(about.facts(profile)))
        yield NumberedList(advice.TITLE, advice.with_codes(profile))
        yield from self._figures()
        yield _notes(profile, ("error", "warning"))
        yield from self._why()
        yield _notes(profile, ("note",))

    def _figures(self) -> Iterator[Section]:
        """Yield the headline figures, and the phases of a run that has several."""
        phases = self._view(views.PHASE_VIEW) if counted_phase(self.profile) else None
        yield from filter(None, (figures.figures(self.profile, first=True), phases))

    def _why(self) -> Iterator[Section]:
        """Yield what changes would give, where the time goes, what keeps ops off the Tensor Cores, bad sizes."""
        profile, top, cost = self.profile, self.spec.rows_for_people, self.profile.off
        rows = None if top is None else min(FIRST_SCREEN_ROWS, top)
        waits = profile.waiting is not None and profile.waiting.idle_pct >= NOTICEABLE_PCT
        found = [
            findings.what_if_table(profile, top),
            view_section(profile, time_views.WAIT_VIEW, rows) if waits else None,
            view_section(profile, time_views.GAP_VIEW, rows) if waits else None,
            view_section(profile, time_views.COPY_VIEW, rows) if waits else None,
            view_section(profile, time_views.MESSAGE_VIEW, rows),
            cause_table(profile),
            view_section(profile, CHAIN_VIEW, rows),
            findings.blockers(profile, cost, rows) if cost and not cost.measured else None,
            findings.costliest(profile, cost, rows) if cost else None,
            findings.bad_size_table(profile, top),
        ]
        yield from filter(None, found)

    def _view(self, view: View) -> Section | None:
        return view_section(self.profile, view, self.spec.rows_for_people)

    def _tables(self) -> tuple[list[Section], list[tuple[str, str]]]:
        """Return the tables that close a report, and (name, reason) of each that is missed."""
        profile, by = self.profile, self.spec.by
        wanted = [views.BY[name] for name in by] if by else _usual(profile)
        found = [self._view(view) for view in wanted]
        missed = [view.table for view, table in zip(wanted, found, strict=True) if table is None]
        idle = ("kernels", "devices") if profile.metadata.gpu_used is False else ()
        absent = [n for n in missed if by or (n in profile.absent and n not in idle)]
        if not by:
            told = profile.no_what_if is not None and profile.metadata.gpu_used is not False
            absent += ["what_ifs"] if told and len(profile.require("kernels")) else []
            found += [
                figures.figures(profile, first=False),
                _logged(profile, self.spec),
                _reported(profile, self.spec),
            ]
        return [one for one in found if one], [(name, why_absent(profile, name)) for name in absent]


def _usual(profile: Profile) -> list[View]:
    """Return the views of a report for which no table was asked; some stand further up, or only in some reports."""
    elsewhere = [
        views.PHASE_VIEW,
        time_views.WAIT_VIEW,
        time_views.GAP_VIEW,
        time_views.COPY_VIEW,
        time_views.MESSAGE_VIEW,
        views.CAUSE_VIEW,
        views.KIND_VIEW,
        CHAIN_VIEW,
        views.ADVICE_VIEW,
    ]
    alone = profile.table("range_times") is not None and not len(profile.require("kernels"))
    elsewhere += [] if alone else [time_views.RANGE_TIME_VIEW]
    if profile.table("range_kernels") is None:
        elsewhere.append(views.RANGE_VIEW)
    if profile.counted_steps is not None or profile.table("units") is None:
        elsewhere.append(views.UNIT_VIEW)
    shown = [view for view in views.BY.values() if view not in elsewhere]
    if np.isnan(profile.require("ops").numbers("host_ns")).all():
        shown.append(views.HOST_OP_VIEW)
    return shown if len(profile.require("kernels")) else [*shown, views.GEMM_VIEW]


def why_absent(profile: Profile, table: str) -> str:
    """Return why a table has no rows."""
    there = profile.table(table) is not None
    return profile.absent.get(table) or ("the profile has none" if there else "this source does not give them")


def _notes(profile: Profile, levels: tuple[str, ...]) -> Remarks:
    chosen = [note for note in figures.sorted_notes(profile) if note.level in levels]
    remarks = [*_outputs(profile, levels), *(Remark(n.level, n.message, n.remedy) for n in chosen[:MOST_LISTED])]
    if left := len(chosen[MOST_LISTED:]):
        remarks.append(Remark("note", f"{left:,} more are not shown here", "--format json lists all"))
    return Remarks(tuple(remarks))


def _outputs(profile: Profile, levels: tuple[str, ...]) -> Iterator[Remark]:
    """Yield the probabilities that a model gives in 16 bits: float16 may lose them, bfloat16 is coarse."""
    policy = profile.metadata.policy
    for one in policy.outputs[:MOST_LISTED] if policy is not None else ():
        level: Severity = "warning" if one.dtype == "float16" else "note"
        if level in levels:
            place = f" ({one.source})" if one.source else ""
            yield Remark(
                level,
                f"{one.layer_class} '{one.layer}'{place} ends the model with a {one.activation} in {one.dtype}",
                f"split off Activation('{one.activation}', dtype='float32') (tcprobe explain TC201)",
            )


def _rows(table: Table, top: int | None) -> list[Row]:
    """Return a table for JSON."""
    rows = list(islice(table.rows(), top))
    return spelt(rows) if any(column.nan for column in table.spec.columns) else rows


class _Logged(NamedTuple):
    """A figure that the workload logged."""

    name: str
    last: str  # with the step since which it is NaN or an infinity, where it is
    value: float
    odd: str | None  # how many of its values are none that are finite, None for none
    unit: Value


def _logged(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the last value of each figure that the workload logged, and how many values were no finite numbers."""
    metrics, names = profile.require("metrics"), profile.require("metrics").names("name")
    rows = [_one_logged(metrics.take(names.ids == one)) for one in distinct_numbers(names.ids).tolist() if one >= 0]
    fields = [
        field_of("figure", attrgetter("name")),
        cell_of("last value", lambda one: Cell(one.last, one.value), right=True),
        field_of("unit", attrgetter("unit")),
    ]
    if any(one.odd for one in rows):
        fields.append(field_of("not finite", attrgetter("odd"), right=True))
    return section("Logged by the workload", fields, rows, top=None if spec.top == 0 else MOST_LISTED)


def _one_logged(mine: Table) -> _Logged:
    """Return what is shown of the rows of one name."""
    values, steps = mine.numbers("value"), mine.values("step")
    value, odd = float(values[-1]), int(np.count_nonzero(~np.isfinite(values)))
    last, since = full_number(value, 10), lasting_since(values)
    return _Logged(
        str(mine.names("name")[0]),
        last if since is None else since_step(last, steps[since]),
        value,
        f"{odd:,} of {len(values):,}" if odd else None,
        mine.values("unit")[-1],
    )


def _reported(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the profiler's own figures, as it reported them."""
    rows = list(profile.require("reported").rows())
    fields = (
        field_of("figure", "metric", least=24),
        cell_of("value", _as_given, right=True),
        cell_of("unit", lambda row: "s" if _in_seconds(row) else any_text(row["unit"])),
        field_of("source", "source", 1, least=24),
    )
    return section("As the profiler itself reported", fields, rows, top=spec.rows_for_people)


def _as_given(row: Row) -> Cell:
    """Return a value with the profiler's digits; long times are in seconds."""
    value = row["value"]
    if value is None:
        return Cell(any_text(row["text"]), row["text"])
    if _in_seconds(row):
        return Cell(full_number(float(value) / 1e9, 10), value, "ns")
    return Cell(full_number(float(value), 10), value)


def _in_seconds(row: Row) -> bool:
    return row["unit"] == "ns" and row["value"] is not None and float(row["value"]) >= 1e9
