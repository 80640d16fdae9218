"""`tcprobe.compare`: runs side by side."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.api.profile import Profile, Shown
from tcprobe.schema.records import as_dict

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tcprobe.report.compare.document import CompareDocument
    from tcprobe.schema.comparison import Comparison as Compared

Run: TypeAlias = "str | os.PathLike[str] | Profile"
DTYPES: Final = {
    **dict.fromkeys(("run", "step"), "Int64"),
    **dict.fromkeys(("value", "low", "high", "change", "change_pct", "change_low_pct", "change_high_pct"), "Float64"),
    **dict.fromkeys(("time_ns", "change_ns", "tc_ns", "launches", "kernels_ns"), "Float64"),
    **dict.fromkeys(("less_is_better", "per_step"), "boolean"),
}
"""Columns that hold no text, whatever is in them; the value of a setting is text."""


def compare(first: Run, *others: Run) -> Comparison:
    """Hold runs against the first one, as `tcprobe compare` does.

    Args:
        first, others: paths as `read` takes, or profiles.

    Raises:
        TcprobeError: there is no other run, or one cannot be used.
    """
    from tcprobe.flows.compare import make_comparison
    from tcprobe.foreign import input_path

    given = [one if isinstance(one, Profile) else input_path(one) for one in (first, *others)]
    paths = [one.path if isinstance(one, Profile) else one for one in given]
    analysed = [one.analysed() if isinstance(one, Profile) else one for one in given]
    return Comparison(make_comparison(analysed, paths=paths))


class Comparison(Shown):
    """Runs side by side: their figures, layers, ops and kernels as DataFrames, and the report.

    ``figures`` has a row for each figure and run; ``layers``, ``ops`` and ``kernels`` one for each name and run, with
    its time in a step and the change from the first run, in ns. NA is what is not known. A column has the same dtype
    whatever it holds.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        return f"<tcprobe.Comparison: {self.answer}>"

    @property
    def answer(self) -> str:
        """Whether the others take shorter steps than the first (A), by how much, and whether noise explains it."""
        from tcprobe.report.compare.words import answer, letters

        return " ".join(answer(self._compared, letters(len(self.names))))

    @property
    def names(self) -> tuple[str, ...]:
        """What each run is called."""
        return self._compared.names

    @property
    def figures(self) -> pd.DataFrame:
        """Headline figures: metric, unit, run, value, range, and how it differs from the first run's."""
        return self._frame("figure")

    @property
    def layers(self) -> pd.DataFrame:
        """Layers by time in a step."""
        return self._frame("layer")

    @property
    def ops(self) -> pd.DataFrame:
        """Ops by time in a step."""
        return self._frame("op")

    @property
    def kernels(self) -> pd.DataFrame:
        """Kernels by time in a step."""
        return self._frame("kernel")

    @property
    def renamed(self) -> pd.DataFrame:
        """Kernels that took the place of others, by op: one row for each kernel that left or came."""
        return self._frame("renamed")

    @property
    def places(self) -> pd.DataFrame:
        """Kernels by their place in a unit that the runs repeat."""
        return self._frame("place")

    @property
    def ranges(self) -> pd.DataFrame:
        """NVTX ranges by the mean length of one on the host."""
        return self._frame("range")

    @property
    def losses(self) -> pd.DataFrame:
        """What the workloads logged, by step and run."""
        return self._frame("loss")

    @property
    def settings(self) -> pd.DataFrame:
        """What differs between the runs."""
        return self._frame("setting")

    @property
    def notes(self) -> Sequence[dict[str, object]]:
        """What limits the comparison."""
        return [as_dict(note) for note in self._compared.notes]

    def to_text(self, width: int | None = None) -> str:
        """Return the comparison as `tcprobe compare` prints it."""
        return self._as("text", width=width)

    def to_markdown(self) -> str:
        """Return the comparison as Markdown for a pull request."""
        return self._as("markdown")

    def _document(self, top: int | None = None, web: bool = False) -> CompareDocument:
        from tcprobe.report.compare.document import CompareDocument
        from tcprobe.report.document import ReportSpec

        return CompareDocument(self._compared, ReportSpec(top, web=web))

    def _frame(self, name: str) -> pd.DataFrame:
        import pandas as pd

        from tcprobe.report.compare.document import single
        from tcprobe.report.document import ReportSpec
        from tcprobe.schema.columns import float_array

        table = single(self._compared, ReportSpec(by=(name,)))
        dtypes = {column: DTYPES.get(column, "string") for column in table.columns}
        if name == "setting":
            dtypes["value"] = "string"
        frame = pd.DataFrame(list(table.rows()), columns=list(table.columns), dtype=object)
        if name == "loss":  # NaN is a value
            frame["value"] = float_array(frame["value"].tolist())
        return frame.astype(dtypes)
