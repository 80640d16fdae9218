"""Read DLProf's database as the reports that DLProf makes of it, so that what is told of these is told of it too.

Its tables are undocumented; the names here are those of DLProf 1.8, and those that it reads itself say what refers to
what. Of several aggregations the newest is read. What DLProf only adds up from other rows (its tensor core and group
reports) is left to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from tcprobe.errors import EmptyInput, InputError, UnsupportedVersion
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.dlprof import layout, summary
from tcprobe.readers.dlprof.profile import NO_KERNELS, RUN_AGAIN, kernels_captured, profile_of
from tcprobe.readers.dlprof.report import LARGEST, Column, Report, Spread
from tcprobe.readers.nsys.columns import Columns, Ints, read_columns
from tcprobe.readers.nsys.opening import Database, open_database
from tcprobe.schema.columns import Names
from tcprobe.schema.profile import Note, Profile

_SCOPE: Final = ("aggr_id", "domain_id")
_METRIC: Final = {"total": "sum", "min": "min", "max": "max"}
# columns of `node_time_metrics`, and the words of the reports for them
_TIMES: Final = {f"{words.replace(' ', '_')}_metric_id": words for words in ("cpu time", "gpu time")}
_OVERHEADS: Final = {"cpu_overhead_time_metric_id": "cpu overhead", "gpu_idle_time_metric_id": "gpu idle"}
# columns of `read_only_ops` that refer to a text, and the column of the reports that it is
_OP_TEXTS: Final = {
    "op_id_id": "op id",
    "op_type_id": "op type",
    "direction_id": "direction",
    "data_type_id": "data type",
    "data_format_id": "input format",
    "output_format_id": "output format",
}
_OP: Final = ("op id", "op name", "op type", "direction", "data type")
_SHAPES: Final = {"input": "input_shapes_id", "output": "output_shapes_id"}
# columns that refer to `category_summary`, and the row of the summary's two small tables that it is
_OP_ROWS: Final = {
    "nodes_total_id": "All ops",
    "nodes_using_tc_id": "Ops using TC",
    "nodes_tc_eligible_id": "Ops eligible for TC but not using",
    "nodes_other_id": "All other ops",
}
_KERNEL_ROWS: Final = {
    "kernels_total_id": "All kernels",
    "kernels_using_tc_id": "Kernels using TC",
    "kernels_non_tc_id": "All other kernels",
}
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "dictionary": ("id", "string"),
    "model_summary": (*_SCOPE, "wall_time", "tc_utilization", "gpu_utilization", "iter_total", "iter_start", *_OP_ROWS),
    "category_summary": ("id", "gpu_time", "cpu_time", "count"),
    "kernel_summary_metrics": (*_SCOPE, "kernels_total_id", "kernels_using_tc_id", "kernels_non_tc_id"),
    "memory_summary_metrics": (*_SCOPE, "memory_time_id"),
    "metric": ("id", "count", *_METRIC.values()),
    "node_time_metrics": ("id", *_TIMES, *_OVERHEADS),
    "read_only_ops": ("id", "op_name", "stack_trace", *_OP_TEXTS),
    "read_only_op_instances": ("id", "read_only_ops_id", "cpu_start", "cpu_stop", *_SHAPES.values()),
    "read_only_grid_block": ("id", "x", "y", "z"),
    "read_only_kernels": (
        *("id", "read_only_ops_id", "op_instance", "name_id", "long_name_id", "uses_tc", "api_start", "api_stop"),
        *("gpu_start", "gpu_stop", "grid_id", "block_id", "device_id"),
    ),
    "kernel_iteration_node": (*_SCOPE, "read_only_kernel_id", "iter_value"),
    "kernel_summaries": (*_SCOPE, "read_only_ops_id", "kernel_name_id", "gpu_time_metric_id", "uses_tc"),
    "op_nodes": ("aggr_id", "read_only_ops_id", "node_time_metrics_id", "num_calls", "tc_eligible", "using_tc"),
    "op_type_metrics": (*_SCOPE, "op_node_type_id", "op_type_metrics_id", "num_nodes", "num_calls"),
    "expert_systems_feedback": ("aggr_id", "problem", "recommendation"),
    "read_only_gpu_infos": ("device_id", "gpu_name"),
    "read_only_system_config": ("framework", "dlprof_version"),
}
# columns of `read_only_system_config` and `model_summary`, and the figures of the summary that they are
_CONFIG: Final = {
    "num_gpus": "GPU Count",
    "cpu_model": "CPU Model",
    "driver_version": "GPU Driver Version",
    "framework": "Framework",
    "cuda_version": "CUDA Version",
    "cudnn_version": "cuDNN Version",
    "nsys_version": "NSys Version",
    "dlprof_version": "DLProf Version",
    "dlprof_build": "DLProf Build",
}
_FIGURES: Final = {
    "wall_time": "Wall Clock Time (ns)",
    "tc_utilization": summary.TC_UTILIZATION,
    "gpu_utilization": "GPU Utilization %",
    "tc_duration_pct": "Tensor Core Kernel Duration %",
    "non_tc_duration_pct": "Non-Tensor Core Kernel Duration %",
    "memory_duration_pct": "Memory Duration %",
    "dataloader_duration_pct": "Dataloader Duration %",
    "io_duration_pct": "IO Duration %",
    "cpu_duration_pct": "CPU Duration %",
    "other_duration_pct": "Other Duration %",
}
_ITERATIONS: Final = {
    "iter_total": "Total Iterations",
    "iter_aggregated": "Aggregated Iterations",
    "iter_start": "Start Iteration",
    "iter_stop": "Stop Iteration",
    "avg_iteration_time": "Average Iteration Time (ns)",
    "iteration_time_std_dev": "Iteration Time Standard Deviation",
}


def is_whole(path: Path) -> bool:
    """Say whether DLProf got as far as the figures of the whole run."""
    try:
        with open_database(path) as database:
            return bool(database.rows("model_summary", "aggr_id"))
    except InputError:
        return False


def read_database(format_name: str, path: Path) -> Profile:
    """Read a database.

    Args:
        format_name: the reader's name, for the metadata.
        path: the file.

    Raises:
        EmptyInput: DLProf captured no kernel.
        InputError: the database is damaged, being written, not whole or of an unknown version.
    """
    with open_database(path) as database:
        held = _Tables(database)
        made = (_launches(held), _kernels(held), _ops(held), _op_types(held), _feedback(held))
        figures = summary.from_object(path, dict(_sections(held)))
    reports = {report.kind: report for report in made}
    if kernels_captured(figures, reports) is False:
        raise EmptyInput(path, NO_KERNELS, RUN_AGAIN)
    return profile_of(format_name, [path], figures, reports).with_notes(*held.notes())


class _Tables:
    """The newest aggregation of a database: rows of its tables, and what they refer to."""

    def __init__(self, database: Database) -> None:
        self.database = database
        for table, columns in NEEDED.items():
            if not database.has(table, *columns):
                lacks = f"lacks the table {table}, or a column of it: no version of DLProf that is known writes such"
                raise UnsupportedVersion(database.path, lacks)
        made = self.read("model_summary", *_SCOPE)
        if not made.rows:
            raise database.wrong("is not whole: DLProf did not end writing it")
        newest = int(made["aggr_id"].max())
        self.scope = {"aggr_id": newest, "domain_id": int(made["domain_id"][made["aggr_id"] == newest].min())}
        self.aggregations = len(np.unique(made["aggr_id"]))
        self.newest = f"aggr_id = {newest}"
        self.here = " AND ".join(f"{column} = {number}" for column, number in self.scope.items())
        texts = database.rows("dictionary", "id", "string")
        self._texts = [str(text) for _, text in texts]
        self._text_ids = np.array([number if isinstance(number, int) else -1 for number, _ in texts], np.int64)
        ops = database.rows("read_only_ops", "op_name", "stack_trace")
        self._ops = self.read("read_only_ops", "id", *_OP_TEXTS)
        self.op_cells = {name: self.texts(self._ops[column]) for column, name in _OP_TEXTS.items()}
        self.op_cells |= {"op name": _cells(name for name, _ in ops), "stack trace": _cells(trace for _, trace in ops)}

    def notes(self) -> Iterator[Note]:
        """Yield what is not read."""
        if self.aggregations > 1:
            held = f"the database holds {self.aggregations} aggregations of its recording: the newest was read"
            yield Note("several-aggregations", held, level="note")

    def read(self, table: str, *names: str, where: str = "") -> Columns:
        """Return columns of whole numbers.

        Raises:
            WrongFormat: one is negative, NULL, or larger than any that DLProf writes.
        """
        found = read_columns(self.database, table, names, where)
        for name, values in found.items():
            if len(values) and not 0 <= int(values.min()) <= int(values.max()) < LARGEST:
                raise self.database.wrong(f"column {name} of the table {table} holds what is no number of DLProf's")
        return found

    def _places(self, table: str, ids: Ints, wanted: Ints) -> Ints:
        order = np.argsort(ids, kind="stable")
        at = np.minimum(np.searchsorted(ids, wanted, sorter=order), max(len(ids) - 1, 0))
        if len(wanted) and (not len(ids) or (ids[order[at]] != wanted).any()):
            raise self.database.wrong(f"rows of the table {table} are missing, to which others refer")
        return order[at] if len(ids) else at

    def follow(self, table: str, wanted: Ints) -> Columns:
        """Return for each id the row of a table that has it."""
        rows = self.read(table, *NEEDED[table])
        return rows.take(self._places(table, rows["id"], wanted))

    def texts(self, wanted: Ints) -> Names:
        """Return the text that each id stands for; NA where it is empty."""
        texts = Names(self._places("dictionary", self._text_ids, wanted), self._texts)
        return texts.map(lambda text: text or None)

    def of_ops(self, wanted: Ints) -> Ints:
        """Return the row of `op_cells` of each op."""
        return self._places("read_only_ops", self._ops["id"], wanted)

    def spans(self, report: str, start: Ints, stop: Ints) -> Ints:
        """Return the lengths of spans of time.

        Raises:
            WrongFormat: one ends before it begins.
        """
        if (stop < start).any():
            raise self.database.wrong(f"a time of the {report} ends before it begins")
        return stop - start

    def times(self, ids: Ints, words: str) -> dict[str, Column]:
        """Return the figures of a report that metrics hold: total, smallest, largest and mean."""
        metric = self.follow("metric", ids)
        made: dict[str, Column] = {f"{one} {words} ns": metric[column] for one, column in _METRIC.items()}
        return made | {f"avg {words} ns": metric["sum"] / np.maximum(metric["count"], 1)}

    def report(self, kind: str, columns: dict[str, Column], rows: int) -> Report:
        """Return a report of these columns."""
        return Report(kind, self.database.path, columns, rows)


def _cells(values: Any) -> Names:
    return Names.of([None if value is None or value == "" else str(value) for value in values])


def _yes(flags: Ints) -> Spread:
    return Spread(Names((flags > 0).astype(np.int64), ["no", "yes"]))


def _op_columns(held: _Tables, ops: Ints, *names: str) -> dict[str, Column]:
    place = held.of_ops(ops)
    return {name: Spread(held.op_cells[name], place) for name in names}


def _launches(held: _Tables) -> Report:
    node = held.read("kernel_iteration_node", "read_only_kernel_id", "iter_value", where=held.here)
    kernel = held.follow("read_only_kernels", node["read_only_kernel_id"])
    columns: dict[str, Column] = {
        "iteration": node["iter_value"],
        "kernel name": Spread(held.texts(kernel["name_id"])),
        "long kernel name": Spread(held.texts(kernel["long_name_id"])),
        "device id": Spread(_numerals(kernel["device_id"])),
        "gpu start time ns": kernel["gpu_start"],
        "gpu duration ns": held.spans("kernels", kernel["gpu_start"], kernel["gpu_stop"]),
        "api call start ns": kernel["api_start"],
        "api call time ns": held.spans("calls", kernel["api_start"], kernel["api_stop"]),
        "uses tc": _yes(kernel["uses_tc"]),
        **_op_columns(held, kernel["read_only_ops_id"], *_OP),
    }
    for word in ("grid", "block"):
        sizes = held.follow("read_only_grid_block", kernel[f"{word}_id"])
        columns |= {f"{word} {axis}": Spread(_numerals(sizes[axis])) for axis in "xyz"}
    return held.report(layout.ITERATION, columns | _shapes(held, kernel), kernel.rows)


def _numerals(values: Ints) -> Names:
    distinct, place = np.unique(values, return_inverse=True)
    return Names(place.reshape(-1), [str(value) for value in distinct.tolist()])


def _shapes(held: _Tables, kernel: Columns) -> dict[str, Column]:
    """Return the shapes of the call of its op during which each kernel was launched; NA where times do not prove it."""
    calls = held.read("read_only_op_instances", *NEEDED["read_only_op_instances"])
    if not calls.rows:
        return {}
    calls = calls.take(np.lexsort((calls["id"], calls["read_only_ops_id"])))
    first = np.searchsorted(calls["read_only_ops_id"], kernel["read_only_ops_id"])
    at = np.minimum(first + kernel["op_instance"], calls.rows - 1)
    of = calls.take(at)
    proven = of["read_only_ops_id"] == kernel["read_only_ops_id"]
    proven &= (of["cpu_start"] <= kernel["api_start"]) & (kernel["api_start"] <= of["cpu_stop"])
    place = held.of_ops(kernel["read_only_ops_id"])
    made: dict[str, Column] = {}
    for word, column in _SHAPES.items():
        texts, formats = held.texts(of[column]), held.op_cells[f"{word} format"].take(place)
        first_of, which = distinct_rows(texts.ids, formats.ids)
        pairs = zip(texts.take(first_of).tolist(), formats.take(first_of).tolist(), strict=True)
        labelled = Names.of([_labelled(shapes or "", labels or "") for shapes, labels in pairs])
        made[f"{word} shapes"] = Spread(Names(np.where(proven, labelled.ids[which], -1), labelled.names))
    return made


def _labelled(text: str, labels: str) -> str | None:
    """Return shapes as the reports print them: ``[[1,400],[120,400]]`` with ``N,K;M,K`` is ``<N:1, K:400>; ...``."""
    try:
        shapes = msgspec.json.decode(text or "null", type=list[list[int]] | None) or []
    except msgspec.DecodeError:
        return None
    names = [one.split(",") for one in labels.split(";")] + [[]] * len(shapes)
    printed = []
    for shape, named in zip(shapes, names, strict=False):
        sizes = [f"{n}:{size}" for n, size in zip(named, shape, strict=True)] if len(named) == len(shape) else shape
        printed.append(f"<{', '.join(map(str, sizes)) or '0'}>")
    return "; ".join(printed) or None


def _kernels(held: _Tables) -> Report:
    rows = held.read("kernel_summaries", *NEEDED["kernel_summaries"], where=held.here)
    columns: dict[str, Column] = {
        "kernel name": Spread(held.texts(rows["kernel_name_id"])),
        "uses tc": _yes(rows["uses_tc"]),
        **_op_columns(held, rows["read_only_ops_id"], "op id", "op name", "direction"),
        **held.times(rows["gpu_time_metric_id"], "gpu time"),
    }
    return held.report(layout.KERNEL, columns, rows.rows)


def _node_times(held: _Tables, ids: Ints) -> dict[str, Column]:
    node = held.follow("node_time_metrics", ids)
    made: dict[str, Column] = {}
    for column, words in (_TIMES | _OVERHEADS).items():
        made |= held.times(node[column], words)
    return made


def _ops(held: _Tables) -> Report:
    rows = held.read("op_nodes", *NEEDED["op_nodes"], where=held.newest)
    columns: dict[str, Column] = {
        **_op_columns(held, rows["read_only_ops_id"], *_OP, "stack trace"),
        "no calls": rows["num_calls"],
        "tc eligible": _yes(rows["tc_eligible"]),
        "uses tc": _yes(rows["using_tc"]),
        **_node_times(held, rows["node_time_metrics_id"]),
    }
    return held.report(layout.DETAILED, columns, rows.rows)


def _op_types(held: _Tables) -> Report:
    rows = held.read("op_type_metrics", *NEEDED["op_type_metrics"], where=held.here)
    columns: dict[str, Column] = {
        "op type": Spread(held.texts(rows["op_node_type_id"])),
        "# ops": rows["num_nodes"],
        "# calls": rows["num_calls"],
        **_node_times(held, rows["op_type_metrics_id"]),
    }
    return held.report(layout.OP_TYPE, columns, rows.rows)


def _feedback(held: _Tables) -> Report:
    said = held.database.rows("expert_systems_feedback", "aggr_id", "problem", "recommendation")
    rows = [row[1:] for row in said if row[0] == held.scope["aggr_id"]]
    columns: dict[str, Column] = {
        name: Spread(_cells(row[at] for row in rows)) for at, name in enumerate(("problem", "recommendation"))
    }
    return held.report(layout.EXPERT_SYSTEMS, columns, len(rows))


def _sections(held: _Tables) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sections of the summary, as DLProf's JSON has them."""
    gpus = sorted(held.database.rows("read_only_gpu_infos", "device_id", "gpu_name"), key=str)
    config = _named(held, "read_only_system_config", _CONFIG, {})
    yield summary.CONFIG, config | {"GPU Name(s)": ", ".join(str(name) for _, name in gpus)}
    for section, names in ((summary.REPORT, _FIGURES), (summary.ITERATIONS, _ITERATIONS)):
        yield section, _named(held, "model_summary", names, held.scope)
    ops = held.read("model_summary", *_OP_ROWS, where=held.here)
    yield summary.ALL_OPS, {row: _category(held, ops[column], "# Ops") for column, row in _OP_ROWS.items()}
    made = held.read("kernel_summary_metrics", *_KERNEL_ROWS, where=held.here)
    kernels = {row: _category(held, made[column], "# Kernels") for column, row in _KERNEL_ROWS.items()}
    copies = held.read("memory_summary_metrics", "memory_time_id", where=held.here)["memory_time_id"]
    kernels["Memory"] = _category(held, copies, "# Kernels")
    every = kernels["All kernels"]  # without copies, which the reports' row of that name has
    kernels["All kernels"] = {name: value + kernels["Memory"].get(name, 0) for name, value in every.items()}
    yield summary.ALL_KERNELS, kernels


def _named(held: _Tables, table: str, names: Mapping[str, str], scope: Mapping[str, int]) -> dict[str, Any]:
    """Return the figures of the first row of a table that is within the scope; none of columns that it lacks."""
    columns = [column for column in (*scope, *names) if held.database.has(table, column)]
    rows = (dict(zip(columns, row, strict=True)) for row in held.database.rows(table, *columns))
    row = next((row for row in rows if all(row[column] == value for column, value in scope.items())), {})
    return {names[column]: value for column, value in row.items() if column in names and value not in (None, "")}


def _category(held: _Tables, ids: Ints, count: str) -> dict[str, int]:
    row = held.follow("category_summary", ids[:1])
    names = {"gpu_time": summary.GPU_TIME, "cpu_time": "CPU Time (ns)", "count": count}
    return {name: int(row[column][0]) for column, name in names.items() if row.rows}
