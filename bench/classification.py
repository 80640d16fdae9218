"""Measure how well kernels are classified: on labelled names, on kernels with hardware counters, on real captures.

Usage: python bench/classification.py [SAMPLES]

SAMPLES is the folder of real profiles, `../shared/samples` beside the checkout by default. The substring list that
XProf, Kineto's TensorBoard plugin and PyProf share is measured beside tcprobe's rules. Exits 1 if a requirement is
missed.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tcprobe.analysis.kernels import verdict
from tcprobe.analysis.kernels.table import classify
from tcprobe.readers.open import open_profile

DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "samples"
# xprof/utils/kernel_stats_utils.cc; PyProf's tc.py has the same list without i16832
SUBSTRINGS = (
    "16816", "c1688", "conv1x1", "conv2d_c1_k1", "dgrad_1x1_stride_2x2", "direct_group",
    "first_layer_wgrad_kernel", "h1688", "h884", "hmma", "i16832", "i8816", "s884", "s1688", "xmma_gemm",
    "xmma_implicit_gemm", "xmma_sparse_conv", "xmma_sparse_gemm", "xmma_warp_specialized_implicit_gemm",
)  # fmt: skip
CAPTURES = (
    "kineto/*.json.gz", "nsys/*.sqlite", "xplane/*.xplane.pb", "dlprof/*/dlprof_kernel.csv", "nsys_stats/*kern*sum.csv",
)  # fmt: skip
# one hand-written kernel; hardware counters without a kernel
NOT_FRAMEWORKS = ("v100_mpi", "a100_cupti_counters")
MOST_UNKNOWN_PCT = 1.0
Row = dict[str, str]
Says = Callable[[str], str]
csv.field_size_limit(2**24)  # a mangled CUTLASS name has 8 kB


def listed(name: str) -> str:
    """Return the verdict of the substring list."""
    return "yes" if any(part in name for part in SUBSTRINGS) else "no"


def ours(name: str) -> str:
    """Return tcprobe's verdict from the name alone."""
    return classify(name).uses_tc


def rows_of(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(rows: list[Row], says: Says) -> tuple[list[str], list[str], float, float]:
    """Return false positives, missed Tensor Core kernels, the share found, and the share of names with a verdict."""
    said = [(row["uses_tc"], says(row["kernel_name"]), row["kernel_name"]) for row in rows]
    false = [name for label, verdict, name in said if label == "no" and verdict == "yes"]
    missed = [name for label, verdict, name in said if label == "yes" and verdict != "yes"]
    positives = sum(label == "yes" for label, _, _ in said)
    decided = sum(verdict != "unknown" for _, verdict, _ in said)
    return false, missed, 1 - len(missed) / positives, decided / len(said)


def contradicted(rows: list[Row], says: Says) -> Counter[str]:
    """Return the names whose verdict a hardware counter contradicts, with their number of launches."""
    opposite = {("yes", "0"), ("no", "1")}
    return Counter(row["demangled"] for row in rows if (says(row["demangled"]), row["tc_truth"]) in opposite)


@dataclass(frozen=True, slots=True)
class Capture:
    """What names tell of the kernels of one capture.

    Attributes:
        name: of its file.
        spent: time of each kernel name, in any unit.
        vendor: of its GPU.
    """

    name: str
    spent: Counter[str]
    vendor: str

    def share(self, says: Says, *verdicts: str) -> float:
        """Return the share of kernel time in percent that is called one of `verdicts`."""
        return 100 * sum(t for name, t in self.spent.items() if says(name) in verdicts) / self.spent.total()

    def ours(self, name: str) -> str:
        return classify(name, None, self.vendor).uses_tc

    def unknown(self) -> list[str]:
        """Return the names without a verdict, costliest first."""
        return [name for name, _ in self.spent.most_common() if self.ours(name) == "unknown"]


def launched(path: Path) -> tuple[Counter[str], str]:
    """Return the time of each kernel name in a capture, and the vendor of its GPU."""
    time_of: Counter[str] = Counter()
    profile = open_profile(path)
    launches = profile.require("launches")
    table, column = (launches, "duration_ns") if len(launches) else (profile.require("kernels"), "sum_ns")
    for name, duration in zip(table.values("kernel"), table.values(column), strict=True):
        time_of[str(name)] += int(duration or 0)
    vendors = set(profile.require("devices").values("vendor")) - {None}
    return time_of, str(vendors.pop()) if len(vendors) == 1 else "Nvidia"


def captures(samples: Path) -> Iterator[Capture]:
    """Yield every capture that has kernel times."""
    for path in (path for pattern in CAPTURES for path in sorted(samples.glob(pattern))):
        spent, vendor = launched(path)
        if spent.total():
            yield Capture(path.name, spent, vendor)


def is_framework(name: str) -> bool:
    """Say whether a capture is of a framework's training or inference."""
    return not name.startswith(NOT_FRAMEWORKS)


def first_look_ms(names: list[str]) -> float:
    """Return the CPU milliseconds of classifying names for the first time, the least of seven."""
    best = float("inf")
    for _ in range(7):
        verdict.classify.cache_clear()
        verdict.by_name.cache_clear()
        before = time.process_time()
        for name in names:
            classify(name)
        best = min(best, time.process_time() - before)
    return 1000 * best


def report_names(samples: Path) -> list[str]:
    """Print the results on labelled names; return the missed requirements."""
    rows = rows_of(samples / "kernel_names.csv")
    print(f"{len(rows)} labelled names        false positives   Tensor Core kernels found   names with a verdict")
    missed: list[str] = []
    for label, says in (("tcprobe", ours), ("substring list", listed)):
        false, lost, found, decided = names(rows, says)
        print(f"  {label:<22} {len(false):>14} {100 * found:>25.1f} % {100 * decided:>20.1f} %")
        if says is ours:
            missed = [f"false positive: {name[:100]}" for name in false]
            missed += ["under 97 % found"] * (found < 0.97) + ["under 95 % with a verdict"] * (decided < 0.95)
            for name in lost:
                print(f"    not found: {classify(name).evidence} | {name[:80]}")
    return missed


def report_sets(samples: Path) -> list[str]:
    """Print how labels and verdicts meet; return Tensor Core kernels that are said to use none."""
    counts = Counter((row["uses_tc"], ours(row["kernel_name"])) for row in rows_of(samples / "kernel_names.csv"))
    print(f"\n{'labelled':<24} {'said yes':>10} {'no':>8} {'unknown':>10}")
    for label in ("yes", "no", "unknown"):
        yes, no, unknown = (counts[label, said] for said in ("yes", "no", "unknown"))
        print(f"  {label:<22} {yes:>10} {no:>8} {unknown:>10}")
    return [f"{counts['yes', 'no']} Tensor Core kernels said to use none"] * bool(counts["yes", "no"])


def report_truth(samples: Path) -> list[str]:
    """Print the results on kernels with counters; return the contradicted verdicts."""
    rows = rows_of(samples / "ncu" / "kernel_truth.csv")
    print(f"\n{len(rows)} launches with hardware counters   contradicted   Tensor Core launches found")
    positives = sum(row["tc_truth"] == "1" for row in rows)
    for label, says in (("tcprobe", ours), ("substring list", listed)):
        found = sum(row["tc_truth"] == "1" and says(row["demangled"]) == "yes" for row in rows)
        print(f"  {label:<30} {contradicted(rows, says).total():>14} {found:>20} of {positives}")
    lies = contradicted(rows, ours)
    return [f"contradicted by a counter ({count} launches): {name[:100]}" for name, count in lies.items()]


def report_captures(samples: Path) -> list[str]:
    """Print the results on captures; return the framework captures with too much time unknown."""
    print(f"\n{'capture':<46} {'Tensor Core':>12} {'unknown':>9} {'names':>8} {'unknown':>8} {'by the list':>12}")
    missed = []
    for found in captures(samples):
        share, unknown = found.share(found.ours, "unknown"), found.unknown()
        print(
            f"  {found.name:<44} {found.share(found.ours, 'yes'):>10.1f} % {share:>7.2f} % {len(found.spent):>8} "
            f"{len(unknown):>8} {found.share(listed, 'yes'):>10.1f} %"
        )
        for name in unknown[:3]:
            print(f"    unknown: {classify(name).evidence} | {name[:80]}")
        if share >= MOST_UNKNOWN_PCT and is_framework(found.name):
            missed.append(f"{found.name}: {share:.2f} % of kernel time unknown, not under {MOST_UNKNOWN_PCT:g} %")
    return missed


def report_time(samples: Path) -> list[str]:
    """Print what classifying costs."""
    names = list(dict.fromkeys(row["kernel_name"] for row in rows_of(samples / "kernel_names.csv")))
    length = sum(map(len, names)) / len(names)
    print(f"\n{first_look_ms(names):.0f} ms for a first look at {len(names)} names of {length:.0f} characters")
    return []


def main() -> int:
    """Print all; return 1 if a requirement is missed."""
    samples = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    if not samples.is_dir():
        print(f"no real profiles at {samples}", file=sys.stderr)
        return 2
    reports = (report_names, report_sets, report_truth, report_captures, report_time)
    missed = [line for report in reports for line in report(samples)]
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
