"""Measure reading traces of PyTorch's profiler, beside HTA's load, TraceLens and Python's own parser.

    python bench/kineto.py [--sample TRACE.json.gz] [--copies 20] [--runs 3] [--hta PYTHON] [--tracelens PYTHON]
        [TRACE ...]

`--sample` makes a large trace by repeating the sample in time: later copies start later and have correlation and
external ids of their own, as a longer recording has. 20 copies of a100_nccl hold 811,000 events in 189 MB, 214 in 2 GB.
Each run is a process of its own: the least user CPU time and the largest peak of memory of all runs. HTA
(HolisticTraceAnalysis) and TraceLens are run in interpreters that have them; without one, their column is left out.
TraceLens is AMD's (github.com/AMD-AGI/TraceLens), which PyPI does not have: its package of that name is another one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cost import best

READ = "import sys; from pathlib import Path; from tcprobe.readers.kineto import trace; trace.read([Path(sys.argv[1])])"
PLAIN = (
    "import sys, json, gzip; path = sys.argv[1]\n"
    "json.loads((gzip.open if path.endswith('.gz') else open)(path, 'rb').read())"
)
HTA = (
    "import sys; from hta.common.trace import Trace\n"
    "trace = Trace(trace_files={0: sys.argv[1]}, trace_dir=''); trace.parse_traces(use_multiprocessing=False)"
)
TRACELENS = "import sys; from TraceLens import TreePerfAnalyzer; TreePerfAnalyzer.from_file(sys.argv[1])"


def repeat(sample: Path, copies: int, out: Path) -> None:
    """Write a trace repeated in time."""
    trace = json.loads(gzip.decompress(sample.read_bytes()))
    events = trace.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X"]
    span = int(max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed)) + 10_000
    ids = max(int(n) for n in re.findall(r'"(?:correlation|External id|id)": (\d+)', json.dumps(events))) + 1
    # json writes with an indent by Python, ten times slower than without: so once, and what moves is put in anew.
    whole = ",\n".join(json.dumps(event, indent=1) for event in events)
    texts = _MOVED.split(whole)  # text, key, number, text, ...
    numbers = [
        (json.loads(number), span if "ts" in key else ids) for key, number in zip(texts[1::3], texts[2::3], strict=True)
    ]
    with out.open("w", encoding="utf-8") as file:
        file.write(json.dumps(trace, indent=1)[:-2] + ',\n "traceEvents": [\n')
        for copy in range(copies):
            texts[2::3] = [repr(number + copy * each) for number, each in numbers]
            file.write((",\n" if copy else "") + "".join(texts))
        file.write("\n]}\n")


_MOVED = re.compile(r'^( "(?:ts|id)": |  "(?:correlation|External id)": )(\d[\d.]*)(?=,?$)', re.MULTILINE)
"""What a later copy has of its own, as ``json.dumps`` writes it with an indent of 1."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", nargs="*", type=Path, help="further traces, measured as they are")
    parser.add_argument("--sample", type=Path, help="what the large trace repeats")
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta", help="an interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", help="an interpreter that has TraceLens")
    given = parser.parse_args()
    commands = {"tcprobe": (sys.executable, READ), "json": (sys.executable, PLAIN)}
    commands |= {"HTA": (given.hta, HTA)} if given.hta else {}
    commands |= {"TraceLens": (given.tracelens, TRACELENS)} if given.tracelens else {}
    with tempfile.TemporaryDirectory() as folder:
        samples = list(given.samples)
        if given.sample:
            large = Path(folder) / "large.json"
            repeat(given.sample, given.copies, large)
            samples.insert(0, large)
        for path in samples:
            print(f"{path.name}, {path.stat().st_size / 1e6:,.1f} MB")
            ours = None
            for name, (interpreter, code) in commands.items():
                cost = best([interpreter, "-c", code, str(path)], given.runs)
                ours = ours or cost
                ratio = f"{cost.user_s / ours.user_s:5.1f} x CPU, {cost.peak_bytes / ours.peak_bytes:5.2f} x memory"
                print(f"  {name:10} {cost.user_s:7.2f} s user, {cost.peak_bytes / 1e6:7,.0f} MB   {ratio}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
