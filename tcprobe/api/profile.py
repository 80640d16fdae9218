"""`tcprobe.Profile`: a profile whose tables are pandas DataFrames.

What can be shown: in a notebook, as text, as Markdown and as JSON.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcprobe.api.arguments import names_arguments
from tcprobe.errors import TcprobeError
from tcprobe.schema.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd

    from tcprobe.report.document import Document
    from tcprobe.report.run.document import RunDocument
    from tcprobe.schema.columns import Row
    from tcprobe.schema.profile import Metadata, Note
    from tcprobe.schema.profile import Profile as Analysed


class Shown:
    """An object of the API that has a document: the report of its verb."""

    _rows_in_html: int | None = None  # of each table in a notebook; None as everywhere

    def _document(self, top: int | None = None, web: bool = False) -> Document:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._as("html", self._rows_in_html, fragment=True)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return self._as("json")

    def _as(self, name: str, top: int | None = None, width: int | None = None, fragment: bool = False) -> str:
        from tcprobe.report import Renderer, RenderSpec

        out = io.StringIO()
        Renderer(name, ()).render(self._document(top, fragment), RenderSpec(width, fragment=fragment), out)
        return out.getvalue()


class NoTable(TcprobeError, AttributeError):
    """The profile lacks a table; the message says why."""

    code = "E601"


@names_arguments
def read(
    path: str | os.PathLike[str],
    *,
    iter_start: int | None = None,
    iter_stop: int | None = None,
    step_range: str | None = None,
    target_gpu: str | None = None,
) -> Profile:
    """Read a profile, as `tcprobe report` does.

    Args:
        path: a run folder, a profile file, or a folder with one.
        iter_start, iter_stop: first and last iteration to count; None leaves them to detection.
        step_range: regular expression for the names of the ranges that are steps.
        target_gpu: GPU for which a run without one is judged.

    Raises:
        TcprobeError: it cannot be used; the message says why, `hint` what to do.
    """
    from tcprobe.analysis import Options
    from tcprobe.flows.report import make_report
    from tcprobe.foreign import input_path

    options = Options(iter_start, iter_stop, target_gpu, step_range)
    given = input_path(path)
    return Profile(make_report(given, options), given)


class Profile(Shown):
    """An analysed profile: its tables as DataFrames, its figures, and its report.

    Each table of docs/tables.md is an attribute (``profile.kernels``, ``profile.ops``): a DataFrame with nullable
    dtypes, missing values NA, times in ns. One that the profile lacks raises `NoTable`, which says why.

    Attributes:
        path: where it was read, or written.
    """

    _rows_in_html = 5

    # the tables, made when they are asked for
    launches: pd.DataFrame
    launch_configs: pd.DataFrame
    op_details: pd.DataFrame
    memory_ops: pd.DataFrame
    host_ops: pd.DataFrame
    host_events: pd.DataFrame
    ranges: pd.DataFrame
    threads: pd.DataFrame
    step_marks: pd.DataFrame
    graph_ops: pd.DataFrame
    scopes: pd.DataFrame
    steps: pd.DataFrame
    metrics: pd.DataFrame
    gradients: pd.DataFrame
    kernel_counters: pd.DataFrame
    reported: pd.DataFrame
    summary: pd.DataFrame
    causes: pd.DataFrame
    kinds: pd.DataFrame
    phases: pd.DataFrame
    kernels: pd.DataFrame
    ops: pd.DataFrame
    range_kernels: pd.DataFrame
    range_times: pd.DataFrame
    layers: pd.DataFrame
    iterations: pd.DataFrame
    collectives: pd.DataFrame
    messages: pd.DataFrame
    ranks: pd.DataFrame
    step_ranges: pd.DataFrame
    units: pd.DataFrame
    stretches: pd.DataFrame
    chains: pd.DataFrame
    devices: pd.DataFrame
    waits: pd.DataFrame
    gaps: pd.DataFrame
    copies: pd.DataFrame
    gemms: pd.DataFrame
    bad_sizes: pd.DataFrame
    what_ifs: pd.DataFrame
    advice: pd.DataFrame

    def __init__(self, analysed: Analysed, path: Path) -> None:
        self._analysed = analysed
        self.path = path

    if not TYPE_CHECKING:  # else a type checker would take every name for a table

        def __getattr__(self, name: str) -> pd.DataFrame:
            if name in TABLES:
                return self.table(name)
            near = get_close_matches(name, dir(self), n=1)
            raise AttributeError(f"a profile has no {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *TABLES})

    def __repr__(self) -> str:
        share = self.figure("tc_kernel_time_pct")["value"]
        told = "no Tensor Core figure" if share is None else f"{share:.1f} % of kernel time on Tensor Cores"
        return f"<tcprobe.Profile {self.path}: {told}>"

    def table(self, name: str) -> pd.DataFrame:
        """Return a table as a DataFrame.

        Raises:
            NoTable: the profile lacks it.
            KeyError: there is no table of that name.
        """
        found = self._analysed.table(name)
        if found is None:
            why = self._analysed.absent.get(name, "this source does not give it")
            raise NoTable(f"{self.path} has no {name}: {why}", "profile.absent has the reasons of all missing tables")
        return found.to_pandas()

    def figure(self, metric: str) -> Row:
        """Return a headline figure as its row of `summary`: value, low, high, text, basis, reason.

        Raises:
            KeyError: the profile has no such figure.
        """
        row = self._analysed.figure(metric)
        if row is None:
            known = [str(one) for one in self._analysed.require("summary").values("metric")]
            near = get_close_matches(metric, known, n=1)
            raise KeyError(f"no figure {metric!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        return row

    @property
    def metadata(self) -> Metadata:
        """Where the profile comes from."""
        return self._analysed.metadata

    @property
    def notes(self) -> tuple[Note, ...]:
        """What limits the figures."""
        return self._analysed.metadata.notes

    @property
    def absent(self) -> dict[str, str]:
        """Name of each missing table -> why it is missing."""
        return dict(self._analysed.absent)

    @property
    def verdict(self) -> str:
        """How well the run uses the Tensor Cores, in a word or two: ``GOOD``, ``WAITING``, ``NOT USED``, ..."""
        screen = self._analysed.screen
        return "NOT MEASURED" if screen is None else screen.answer.word

    @property
    def what_to_do(self) -> list[str]:
        """What to do first, in sentences; the table ``advice`` has all items with their figures."""
        from tcprobe.report.run.advice import advice_sentences

        return advice_sentences(self._analysed)

    def to_text(self, width: int | None = None, top: int | None = None) -> str:
        """Return the report as `tcprobe report` prints it; `width` None cuts nothing, `top` 0 shows all rows."""
        return self._as("text", top, width)

    def to_markdown(self, top: int | None = None) -> str:
        """Return the report as Markdown."""
        return self._as("markdown", top)

    def save(self, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
        """Write every table as CSV to a folder and return the files.

        Raises:
            OutputError: a file exists and `force` is false, or the system refused; then none is written.
        """
        from tcprobe.flows.write import write_tables
        from tcprobe.foreign import output_path

        return write_tables(self._document(), output_path(folder), force)

    def _document(self, top: int | None = None, web: bool = False) -> RunDocument:
        from tcprobe.report.document import ReportSpec
        from tcprobe.report.run.document import RunDocument

        return RunDocument(self._analysed, ReportSpec(top, web=web))

    def analysed(self) -> Any:
        """Return the profile as tcprobe's own parts pass it on; its shape is not part of the API."""
        return self._analysed
