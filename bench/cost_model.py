"""Measure how well the cost model predicts products to which its constants were not fitted.

Usage: python bench/cost_model.py [SAMPLES] [--unaligned FOLDER] [--products FOLDER] [--layers FOLDER]
           [--recorded FILE] [--others FOLDER]

SAMPLES is the folder of measured products (see `public.py`), `../shared/samples/gemm` beside the checkout by default:
serving stacks and a benchmark. The options add sets that are held out whole; one that is not given is skipped, and said
to be. `fit.py` itself tests the constants of frameworks, on aligned products, and those of 3x3 convolutions in float32.

One line per set, by `op_cost`; errors are mean absolute ones, beside that of a plain roofline at full peak and
bandwidth. "of 10" and "of 40": the share of drawn steps of so many products whose time lies in the range of their sum,
and its width. Exits 1 if a promised bound is missed, 2 without samples.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import public
from bench.public import DEFAULT, STEPS_OF, Measured, Predicted, Sets, accuracy, held, samples, sums
from tcprobe.cost.predict import Target, op_cost, padding
from tcprobe.cost.works import task_of
from tcprobe.hardware import find_gpu

# set -> maximum mean absolute error above 0.1 ms and of all, in percent
PROMISED = {f"{gpu} gemm bfloat16": (9.0, 12.0) for gpu in ("a100-sxm-80", "h100-sxm", "h200-sxm")} | {
    f"A100 PyTorch 16-bit unaligned, all of {public.LEAST} and more": (6.0, 6.0)
}
HEADER = (
    "set", "n", "all %", ">0.1ms %", "bias %", "median %", "<25 % off", "in range", "width", "of 10", "width", "of 40",
    "width", "roofline %",
)  # fmt: skip
HELD_OUT = {
    "unaligned": public.unaligned, "products": public.products, "layers": public.layers, "recorded": public.recorded,
    "others": public.others,
}  # fmt: skip


def predicted(measured: Measured) -> tuple[Predicted, float]:
    """Return the predicted time as the set was timed, and the time of a plain roofline, in ns."""
    gpu, record = find_gpu(measured.row.gpu), measured.row.record
    through = "serving" if measured.origin in ("parquet", "deepbench") else "framework"
    tf32 = record.dtype == "tf32"
    cost = op_cost(record, Target(gpu, measured.row.library, tf32=tf32, channels_last=True, through=through))
    task = task_of(record, gpu)
    assert cost is not None and task is not None, record
    moved = sum(work.moved_bytes for work, _ in task.works)
    roofline = 1e9 * max(task.flops / task.units.flop_per_s, moved / gpu.bandwidth_bytes_per_s)
    launch = cost.launch_ns if measured.origin == "framework" else 0.0
    return Predicted(measured.row.time_ns, cost.ns + launch, cost.low_ns + launch, cost.high_ns + launch), roofline


def line(rows: list[Measured]) -> tuple[list[str], float, float]:
    """Return the figures of one set as text, and the two promised errors."""
    found, plain = [], []
    for measured in rows:
        one, roofline = predicted(measured)
        found.append(one)
        plain.append(100 * abs(roofline / one.time_ns - 1))
    of = accuracy(found)
    first = (of.error_pct, of.long_pct, of.bias_pct, of.median_pct, of.near_pct, of.in_range_pct)
    steps = [f"{f:.{digits}f}" for size in STEPS_OF for f, digits in zip(sums(found, size), (0, 2), strict=True)]
    cells = [*(f"{f:.1f}" for f in first), f"{of.width:.2f}", *steps, f"{statistics.fmean(plain):.1f}"]
    return [f"{len(rows)}", *cells], of.long_pct, of.error_pct


def decisions(folder: Path) -> str:
    """Return how well it is said where padding at run time loses."""
    found = [
        (padding(row.record, Target(find_gpu(row.gpu))), padded > row.time_ns)
        for row, padded in public.paddings(folder)
    ]
    judged = [(saved, lost) for saved, lost in found if saved is not None]
    may = [lost for saved, lost in judged if saved.low <= 0]
    likely = [lost for saved, lost in judged if saved.mid <= 0]
    return (
        f"padding: of {len(judged)} products {sum(lost for _, lost in judged)} lost; {sum(may)} of them said that they "
        f"may, with {len(may) - sum(may)} false alarms; {sum(likely)} said likely to, with {len(likely) - sum(likely)}"
    )


def sets(found: list[Measured]) -> Sets:
    """Return the tested products by GPU, kind, dtype, and pass of a convolution."""
    by_set: Sets = defaultdict(list)
    for measured in found:
        if not measured.train:
            record = measured.row.record
            kind = f"conv {record.pass_}" if record.op_type.startswith("Conv2D") else "gemm"
            by_set[f"{measured.row.gpu} {kind} {record.dtype}"].append(measured)
    return by_set


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", nargs="?", type=Path, default=DEFAULT)
    for name in HELD_OUT:
        parser.add_argument(f"--{name}", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    by_set = sets(samples(given.samples))
    if not by_set:
        print(f"no measured products in {given.samples}: nothing tested", file=sys.stderr)
        return 2
    absent = [f"{name}: its samples are absent" for name in PROMISED if "PyTorch" not in name and name not in by_set]
    print(f"{HEADER[0]:58}" + "".join(f"{name:>11}" for name in HEADER[1:]))
    missed = absent + [text for name, rows in by_set.items() for text in shown(name, rows)]
    for name, read in HELD_OUT.items():
        folder = getattr(given, name)
        if folder is None:
            print(f"--{name} is not given: skipped", file=sys.stderr)
            continue
        missed += [text for title, rows in read(folder).items() for text in shown(title, rows)]
        if name == "unaligned":
            print(decisions(folder))
        if name == "layers":
            for gpu, steps in public.transformers(folder).items():
                share, width = held([[predicted(row)[0] for row in step] for step in steps[::5]])
                print(f"{gpu}, {len(steps[::5])} layers of four products: {share:.0f} % in the range, {width:.2f} wide")
    for text in missed:
        print(f"MISSED {text}")
    return 1 if missed else 0


def shown(name: str, rows: list[Measured]) -> list[str]:
    """Print the line of a set, and return which promises it misses."""
    cells, above, every = line(rows)
    print(f"{name:58}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
    bounds = zip((above, every), PROMISED.get(name, (1e9, 1e9)), ("> 0.1 ms", "all"), strict=True)
    return [
        f"{name}: {figure:.1f} % {what}, promised {bound:.0f} %" for figure, bound, what in bounds if figure > bound
    ]


if __name__ == "__main__":
    sys.exit(main())
