"""Write what a report of Nsight Compute holds: ``python unpack.py REPORT OUT``. NVIDIA's reader is C++: it runs apart.

A line of JSON for each launch: [{who}, {metric: [value, unit]}]. Needs NVIDIA's package ncu-report, nothing of ours.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main(path: str, out: str) -> None:
    """Write the launches of a report."""
    import ncu_report  # type: ignore[import-not-found, import-untyped, unused-ignore]

    context = ncu_report.load_report(path)
    number = 0
    with open(out, "w", encoding="utf-8") as file:  # noqa: PTH123 - a file of our own
        for action in (action for at in range(len(context)) for action in context[at]):
            metrics: dict[str, Any] = {}
            texts = {"ID": str(number), "Kernel Name": action.name(action.NameBase_DEMANGLED)}
            for name in action.metric_names():
                metric = action[name]
                if not metric.has_value():
                    continue
                if metric.kind() == metric.ValueKind_STRING:
                    texts[name] = metric.as_string()
                else:
                    metrics[name] = [metric.as_double(), metric.unit()]
            file.write(json.dumps([texts, metrics]) + "\n")
            number += 1


if __name__ == "__main__":
    main(*sys.argv[1:3])
