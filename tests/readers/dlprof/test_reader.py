"""DLProf's dialects, worked by hand and from the project's own made-up runs."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcprobe.errors import EmptyInput, InputError, UsageError, WrongFormat
from tcprobe.readers import READERS
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.dlprof.layout import canonical, profile_name
from tcprobe.readers.dlprof.profile import modal_multiple
from tcprobe.readers.dlprof.reader import CSV as dlprof_csv
from tcprobe.readers.dlprof.reader import JSON as dlprof_json
from tcprobe.readers.dlprof.report import coalesce
from tcprobe.readers.dlprof.tables import called_from, dtype_of, first_shape, launch_counts, shapes_of
from tcprobe.schema.columns import Names
from tcprobe.schema.profile import Profile
from tests.fixtures.dlprof import make
from tests.support import ROOT

COMMITTED = Path(make.__file__).parent


def read(path: Path) -> Profile:
    found = dlprof_csv.finds(path)
    return dlprof_csv.read(found) if found else dlprof_json.read(dlprof_json.finds(path))


def written(folder: Path, run: make.Run, *kinds: str, formats: tuple[str, ...] = ("csv",)) -> Profile:
    make.write(folder, run, list(kinds) or make.ALL, formats)
    return read(folder)


def reported(profile: Profile) -> dict[str, object]:
    return {
        str(r["metric"]): r["value"] if r["text"] is None else r["text"] for r in profile.require("reported").rows()
    }


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.metadata.notes]


def test_both_readers_are_listed() -> None:
    assert {"dlprof_csv", "dlprof_json"} <= {reader.FORMAT for reader in READERS}


@pytest.mark.parametrize("name", make.COMMITTED)
def test_committed_files_are_what_their_script_writes(name: str, tmp_path: Path) -> None:
    run, kinds, formats = make.COMMITTED[name]
    make.write(tmp_path, run, kinds, formats)
    fresh = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert fresh == {p.name: p.read_bytes() for p in (COMMITTED / name).iterdir()}


def test_launches_of_a_made_up_run() -> None:
    launches = read(COMMITTED / "tf2_1.8").require("launches")
    assert len(launches) == 8 * 5 + 1  # five kernels in each of eight steps, and one after the last key node
    # steps 2 to 8 take 30 + 50 + 80 + 5 + 2 us, the first three times that, the rest 2 us
    assert launches.numbers("duration_ns").sum() == (7 + 3) * 167_000 + 2_000
    assert launches.numbers("iteration").max() == 8
    assert set(launches.numbers("stream").tolist()) == {-1}


def test_kernels_of_a_made_up_run() -> None:
    rows = {r["op_type"]: r for r in read(COMMITTED / "tf2_1.8").require("kernels").rows()}
    wgrad = rows["Conv2DBackpropFilter"]
    assert (wgrad["calls"], wgrad["sum_ns"], wgrad["min_ns"], wgrad["max_ns"]) == (8, 800_000, 80_000, 240_000)
    assert (wgrad["uses_tc"], wgrad["basis"], wgrad["evidence"]) == ("no", "reported", "DLProf: Uses TC = no")
    assert str(wgrad["kernel"]).startswith("void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half")
    assert rows["Conv2D"]["evidence"] == "DLProf: Uses TC = yes"
    assert (rows["Conv2D"]["grid"], rows["Conv2D"]["block"]) == ("8,2,1", "128,1,1")


def test_ops_of_a_made_up_run_keep_sums_and_unions_apart() -> None:
    ops = {str(r["op"]): r for r in read(COMMITTED / "tf2_1.8").require("ops").rows()}
    send = ops["IteratorGetNext/_2"]
    assert (send["sum_ns"], send["launches"], send["union_ns"]) == (0, 0, 24_000)  # copies alone
    dense = ops["generator/dense/MatMul"]
    assert (dense["sum_ns"], dense["tc_ns"], dense["unknown_ns"], dense["tc_capable"]) == (300_000, 300_000, 0, "yes")
    assert (dense["calls"], dense["host_ns"], dense["dtype"]) == (8, 160_000, "float16")


def test_aggregated_reports_give_the_same_kernels(tmp_path: Path) -> None:
    profile = written(tmp_path, make.Run(), "kernel", "detailed")
    kernels = profile.require("kernels")
    assert kernels.numbers("sum_ns").sum() == 10 * 167_000 + 2_000
    assert kernels.numbers("calls").tolist() == [8, 8, 8, 8, 9]
    assert kernels.values("device") == [None] * 5
    assert kernels.values("op_type")[0] == "MatMul"
    assert "kernel report and detail report hold sums" in profile.absent["launches"]


def test_the_tensor_core_report_tells_kernel_times_of_eligible_ops(tmp_path: Path) -> None:
    ops = {str(r["op"]): r for r in written(tmp_path, make.Run(), "tensor_core", "detailed").require("ops").rows()}
    assert ops["generator/dense/MatMul"]["tc_ns"] == 300_000
    assert ops["generator/conv2d/Relu"]["sum_ns"] is None  # it ran, and no report here says for how long
    assert ops["generator/conv2d/Relu"]["tc_ns"] == 0


def test_json_alone_says_the_same_as_csv_alone(tmp_path: Path) -> None:
    a, b = (written(tmp_path / form, make.Run(), formats=(form,)) for form in ("csv", "json"))
    assert (a.metadata.format, b.metadata.format) == ("dlprof_csv", "dlprof_json")
    for name in ("launches", "op_details", "launch_configs", "kernels", "ops", "host_ops", "devices"):
        assert list(a.require(name).rows()) == list(b.require(name).rows()), name
    assert codes(a) == codes(b)


def test_percentages_come_from_json_where_both_lie_there(tmp_path: Path) -> None:
    run = make.Run(mode="simple")  # tensor kernels take 80 of 167 us
    profile = written(tmp_path, run, formats=("csv", "json"))
    figures, exact = reported(profile), 100 * 800_000 / 1_670_000
    assert figures["Summary Report / Tensor Core Kernel Utilization %"] == exact
    assert len(profile.metadata.paths) == 16
    alone = reported(written(tmp_path / "csv", run))
    assert alone["Summary Report / Tensor Core Kernel Utilization %"] == round(exact, 1)
    assert dlprof_json.finds(tmp_path / "csv") == []


def test_backward_ops_stay_apart_from_their_forward_twins() -> None:
    profile = read(COMMITTED / "pytorch_1.7")
    ops = [str(op) for op in profile.require("op_details").values("op")]
    assert ops[:2] == [
        "/module/net::forward/Linear::forward/linear",
        "/module/net::forward/Linear::forward/linear [bprop]",
    ]
    rows = list(profile.require("ops").rows())
    assert [r["pass"] for r in rows] == ["forward", None, "forward"]
    assert rows[0]["called_from"] == "train.py:12"
    assert [r["sum_ns"] for r in rows] == [300_000, 400_000, 42_000 - 2_000 + 2_000]


@pytest.mark.parametrize("version", ["0.13.0", "0.16.0", "1.0.0", "1.2.0", "1.7.0", "1.8.0"])
@pytest.mark.parametrize("mode", ["tensorflow1", "tensorflow2", "pytorch", "simple"])
def test_every_version_and_mode_gives_the_same_kernel_time(version: str, mode: str, tmp_path: Path) -> None:
    run = make.Run(version, mode, key="RELU_1" if mode == "pytorch" else "ASSIGNADDVARIABLEOP_1")
    profile = written(tmp_path, run)
    assert profile.require("launches").numbers("duration_ns").sum() == sum(ns for *_, ns in make.launches(run))
    assert profile.metadata.profiler == f"DLProf {version} (build 29839685)"
    assert "dlprof-disagrees" not in codes(profile)


def test_columns_may_come_in_any_order_with_others_among_them(tmp_path: Path) -> None:
    make.write(tmp_path, make.Run(), ["iteration"])
    path = tmp_path / "dlprof_iteration.csv"
    with path.open(newline="") as file:
        title, head, *rows = csv.reader(file)
    order = list(reversed(range(len(head))))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerows([title, ["New"] + [head[i] for i in order], *(["x"] + [row[i] for i in order] for row in rows)])
    assert list(read(path).require("launches").rows()) == list(read(COMMITTED / "tf2_1.8").require("launches").rows())


@pytest.mark.parametrize("kept", ["title", "no title", "blank lines", "spreadsheet", "utf-16", "byte order mark"])
def test_other_programs_may_have_touched_the_file(kept: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels of monday.csv"
    text = (COMMITTED / "tf2_1.8/dlprof_kernel.csv").read_text()
    if kept == "no title":
        text = text.partition("\n")[2]
    elif kept == "blank lines":
        text = "\n" + text.replace("\n", "\n\n")
    elif kept == "spreadsheet":
        text = "\r\n".join(f"{line},," for line in text.splitlines())
    encoding = {"utf-16": "utf-16", "byte order mark": "utf-8-sig"}.get(kept, "utf-8")
    path.write_bytes(text.encode(encoding))
    assert read(path).require("kernels").numbers("sum_ns").sum() == 10 * 167_000 + 2_000


def test_a_summary_from_a_spreadsheet_is_read(tmp_path: Path) -> None:
    text = (COMMITTED / "tf2_1.8/dlprof_summary.csv").read_text()
    path = tmp_path / "s.csv"
    path.write_text("\r\n".join(f"{line},," for line in text.splitlines()) + "\r\n")
    fresh = reported(read(path))
    assert fresh == reported(read(COMMITTED / "tf2_1.8/dlprof_summary.csv"))


def test_gpu_names_with_commas_between_them(tmp_path: Path) -> None:
    profile = written(tmp_path, make.Run(gpus=("A100", "A100", "T4")), "summary")
    assert profile.require("devices").values("name") == ["A100", "A100", "T4"]
    idle = "The GPU is underutilized: the following GPU device IDs are not being used: 1, 2"
    profile = written(
        tmp_path, make.Run(gpus=("A100", "A100", "T4"), feedback=((idle, "x"),)), "summary", "expert_systems"
    )
    assert profile.require("devices").values("state") == ["active", "idle", "idle"]


def test_a_report_without_rows_is_no_error(tmp_path: Path) -> None:
    profile = written(tmp_path, make.Run(kernels=False), formats=("csv", "json"))
    assert codes(profile)[0] == "no-kernels"
    assert profile.table("kernels") is None and profile.absent["kernels"] == "DLProf captured no kernel"
    shown = reported(profile)["Summary Report / Tensor Core Kernel Utilization %"]
    assert shown == "0.0 (no kernel was captured)"
    assert profile.require("devices").values("state") == ["idle"]


@pytest.mark.parametrize("kind", ["iteration", "kernel", "summary", "detailed"])
def test_zero_kernels_are_seen_in_every_report_alone(kind: str, tmp_path: Path) -> None:
    assert codes(written(tmp_path, make.Run(kernels=False), kind))[0] == "no-kernels"


def test_the_aggregated_range_is_told(tmp_path: Path) -> None:
    assert "start-or-tail-inside" not in codes(written(tmp_path / "a", make.Run(iter_start=2, iter_stop=6)))
    profile = written(tmp_path / "b", make.Run(), "summary")
    note = next(n for n in profile.metadata.notes if n.code == "start-or-tail-inside")
    assert note.level == "warning" and "iteration 0" in note.message and "iteration 8" in note.message
    assert (profile.metadata.window.first, profile.metadata.window.last) == (0, 8)


def test_simple_mode_names_no_ops(tmp_path: Path) -> None:
    profile = written(tmp_path, make.Run("1.0.0", "simple"))
    assert len(profile.require("kernels")) == 5
    assert set(profile.require("kernels").values("op")) == {None}
    assert set(profile.require("launches").numbers("op_id").tolist()) == {-1}
    assert profile.absent["ops"] == profile.absent["host_ops"] == "DLProf's simple mode knows no ops"
    assert codes(profile)[0] == "simple-mode"


def test_an_iteration_report_without_rows_hides_no_kernels(tmp_path: Path) -> None:
    make.write(tmp_path, make.Run("1.0.0", "simple"), make.ALL)
    path = tmp_path / "dlprof_iteration.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:2]) + "\n")
    profile = read(tmp_path)
    assert "no-kernels" not in codes(profile)
    assert profile.require("kernels").numbers("sum_ns").sum() == 10 * 167_000
    assert profile.absent["launches"].endswith("its iteration report has no rows")


def test_a_whole_run_is_told(tmp_path: Path) -> None:
    assert "whole-run" in codes(written(tmp_path, make.Run(key="")))


def test_summary_that_contradicts_its_rows_is_told(tmp_path: Path) -> None:
    make.write(tmp_path, make.Run(steps=5), ["summary"])
    profile = written(tmp_path, make.Run(steps=8), "iteration")
    told = [n.message for n in profile.metadata.notes if n.code == "dlprof-disagrees"]
    assert len(told) == 2 and told[0].startswith("'Kernels using TC' takes 560000 ns in DLProf's summary and 800000 ns")


def test_advice_is_passed_on_with_what_misleads_in_it(tmp_path: Path) -> None:
    amp = "3 ops were eligible to use tensor cores but none are using FP16"
    profile = written(tmp_path, make.Run(feedback=((amp, "Try enabling AMP"),)))
    note = next(n for n in profile.metadata.notes if n.code == "dlprof-advice")
    assert note.message == f"DLProf: {amp} (Tensor Cores are in use here: DLProf overlooks TF32)"
    assert (note.remedy, note.level) == ("Try enabling AMP", "note")


def test_cadence_of_a_key_node_worked_by_hand() -> None:
    assert modal_multiple([41] * 11 + [492] * 332, 41) == 12  # the public TensorFlow 1 sample: an epoch, not a step
    assert modal_multiple([41] * 11 + [492] * 332, 42) == 12  # with the rest after the last key node
    assert modal_multiple([56] * 300, 57) is None
    assert modal_multiple([56] * 300, 56) is None
    assert modal_multiple([1, 2, 3, 4, 8], 2) is None  # no number of calls that most ops share
    assert modal_multiple([], 5) is None and modal_multiple([10], 1) is None


def test_several_profiles_in_one_folder_are_not_mixed(tmp_path: Path) -> None:
    make.write(tmp_path, make.Run(), ["kernel"], name="a")
    make.write(tmp_path, make.Run(), ["summary"], name="b")
    with pytest.raises(UsageError, match="reports of 2 DLProf profiles lie here: a, b"):
        read(tmp_path)


def test_json_of_one_profile_goes_with_its_csv_and_not_with_anothers(tmp_path: Path) -> None:
    make.write(tmp_path, make.Run(), ["kernel"], name="a")
    make.write(tmp_path, make.Run(), ["summary"], ("json",), name="a")
    make.write(tmp_path, make.Run(), ["summary"], ("json",), name="b")
    assert [p.name for p in dlprof_csv.finds(tmp_path)] == ["a_kernel.csv", "a_summary.json"]
    assert [p.name for p in dlprof_json.finds(tmp_path)] == ["b_summary.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"a,b\n1,2\n", b"\x00\x01\x02", b"[1, 2]", b'{"a": 1}', b"Problem,Recommendation\nx,y\n",
        b"Iterations\n1\n2\n", b'{"Iterations": {"loss": 1}}', b"\xff\xfe\x00", b"SQLite format 3\x00",
    ],
)  # fmt: skip
def test_what_is_not_dlprofs_is_left_alone(content: bytes, tmp_path: Path) -> None:
    for name in ("dlprof_summary.csv", "dlprof_summary.json"):
        (tmp_path / name).write_bytes(content)
    assert dlprof_csv.finds(tmp_path) == dlprof_json.finds(tmp_path) == []
    assert dlprof_csv.finds(tmp_path / "dlprof_summary.csv") == []
    assert dlprof_csv.finds(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        ("Iteration Report\n", WrongFormat, "a title and no header line"),
        (
            "Iteration Report\nIteration,Op ID\n",
            WrongFormat,
            "lacks the columns gpu duration ns, gpu start time ns, kernel name",
        ),
        ("Kernel Report\nKernel Name,Total GPU Time (ns)\nk,5\nk2\n", WrongFormat, "row 2 has 1 of 2 cells"),
        ("Kernel Report\nKernel Name,Total GPU Time (ns)\nk,5,6\n", WrongFormat, "3 cells under 2 headings"),
        ('Kernel Report\nKernel Name,Total GPU Time (ns)\n"k,5\n', WrongFormat, "ends inside a quoted cell"),
        (
            "Kernel Report\nKernel Name,Total GPU Time (ns)\nk,-5\n",
            WrongFormat,
            "row 1 of the data holds '-5' where a number",
        ),
        ("Kernel Report\nKernel Name,Total GPU Time (ns)\nk,1e300\n", WrongFormat, "'1e300' where a number"),
        ("System Config\n", EmptyInput, "a summary without a figure"),
        ("System Config\nGPU Count,1\nrubbish\n", WrongFormat, "line 3 of the summary is 'rubbish'"),
        ("Summary Report\nWall Clock Time (ns),x\n", WrongFormat, "is 'x', where a number was expected"),
        ("All Kernels\n,GPU Time (ns),CPU Time (ns)\nMemory,1\n", WrongFormat, "line 3 of the summary has 1 figures"),
        ('{"Summary Report": {"Wall Clock Time (ns)": ["1"]', WrongFormat, "is no JSON"),
        ('{"Summary Report": {"Wall Clock Time (ns)": [[1]]}}', WrongFormat, "holds list"),
        ('{"Iteration Report": [{"Iteration": 1}]}', WrongFormat, "lacks the columns"),
        ('{"Iteration Report": [1]}', WrongFormat, "no list of rows"),
    ],
)
def test_damage_is_one_line(content: str, error: type[InputError], words: str, tmp_path: Path) -> None:
    path = tmp_path / "dlprof_x.csv"
    path.write_text(content)
    with pytest.raises(error) as caught:
        read(path)
    assert words in caught.value.message and str(path) in caught.value.message
    assert "\n" not in caught.value.message and caught.value.hint


def test_a_wrong_encoding_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_bytes("Kernel Report\nKernel Name,Total GPU Time (ns)\ncafé,5\n".encode("latin-1"))
    with pytest.raises(WrongFormat, match="is not text in UTF-8"):
        read(path)


def test_a_summary_cut_in_its_last_line_loses_that_line_only(tmp_path: Path) -> None:
    text = (COMMITTED / "tf2_1.8/dlprof_summary.csv").read_text()
    path = tmp_path / "dlprof_summary.csv"
    path.write_text(text[:-8])  # "All other kernels,872000,1000,3" without its last figures
    profile = read(path)
    assert "cut-off" in codes(profile) and profile.metadata.partial
    assert "All Kernels / All other kernels / GPU Time (ns)" not in reported(profile)
    path.write_text(text[:-1])  # whole but for its newline: its kernels add up
    assert "cut-off" not in codes(read(path))


def test_shapes_worked_by_hand() -> None:
    assert (
        shapes_of("<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>", "conv2d")
        == "[[32, 3, 32, 32], [6, 3, 3, 3], [6]]"
    )
    assert shapes_of("<N:32, C:3, H:30, W:31>; <K:6, C:3, R:3, S:4>", "Conv2D") == "[[32, 30, 31, 3], [3, 4, 3, 6]]"
    assert first_shape("<N:32, K:6, P:28, Q:29>", "_FusedConv2D") == "[32, 28, 29, 6]"
    assert shapes_of("<N:32, C:3, H:30, W:31>", "Conv2DBackpropInput") is None  # which operand it is, nothing tells
    assert shapes_of("a/b: <64, 8>, c:1: <>", "MatMul") == "[[64, 8], []]"
    assert shapes_of("p: <0>, q: <2>", "Switch") == "[null, [2]]"
    assert shapes_of("", "MatMul") is None and shapes_of(None, None) is None and first_shape(None, None) is None


def test_dtypes_worked_by_hand() -> None:
    assert dtype_of("float16, float32") == "float16+float32"
    assert dtype_of("bfloat32") == "bfloat16"  # as NVIDIA's TensorFlow spells it
    assert dtype_of("") is None and dtype_of(None) is None


def test_launch_counts_are_certain_or_unknown() -> None:
    total, mean = np.array([29632.0, 0.0, 100.0, 12_345_678.0]), np.array([7408.0, 0.0, 33.0, 1.2])
    assert [None if n != n else n for n in launch_counts(total, mean).tolist()] == [4.0, None, None, None]


def test_innermost_own_frame_of_a_stack_trace() -> None:
    assert called_from("a.py:1\n/x/site-packages/b.py:2\nc.py:3\n/usr/lib/python3.8/d.py:4") == "c.py:3"
    assert called_from("/x/dist-packages/b.py:2") is None


def test_headers_and_names_are_told_whatever_their_spelling() -> None:
    assert canonical("Avg. GPU Time (ns)") == canonical("Avg GPU Time (ns)") == "avg gpu time ns"
    assert canonical("Using TC") == canonical("Uses TC") == "uses tc"
    names = {"dlprof_op_type": "dlprof", "run_1_tensor_core": "run_1", "summary": "", "x": "x", "a_group_node": "a"}
    assert {stem: profile_name(stem) for stem in names} == names


def test_every_note_is_documented() -> None:
    page = (ROOT / "docs/dlprof.md").read_text(encoding="utf-8")
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "tcprobe").rglob("*.py") if "dlprof" in str(p)]
    told = {code for text in sources for code in re.findall(r'Note\(\s*"([a-z-]+)"', text)}
    assert len(told) > 12 and not [code for code in told if f"`{code}`" not in page]


def test_small_helpers() -> None:
    merged = coalesce(Names.of(["a", None, None]), Names.of(["x", "y", None]))
    assert merged.tolist() == ["a", "y", None]
    first, group = distinct_rows(np.array([2, 1, 2, 1]), np.array([5, 5, 5, 6]))
    assert (first.tolist(), group.tolist()) == ([0, 1, 3], [0, 1, 0, 2])


def test_quotes_inside_json_strings_go(tmp_path: Path) -> None:
    row = {"Kernel Name": '"k"', "Op ID": '"A_1"', "Op Name": '"a"', "Uses TC": "yes", "Total GPU Time (ns)": 5}
    (tmp_path / "dlprof_kernel.json").write_text(json.dumps({"Kernel Report": [row]}))
    assert next(read(tmp_path).require("kernels").rows())["kernel"] == "k"


def test_a_wider_run_keeps_devices_apart(tmp_path: Path) -> None:
    make.write(tmp_path, replace(make.Run(), gpus=("T4", "T4")), ["summary", "iteration"])
    path = tmp_path / "dlprof_iteration.csv"
    path.write_text(path.read_text().replace(",0,20300", ",1,20300"))  # launches of step 3 on the second GPU
    profile = read(tmp_path)
    kernels = profile.require("kernels")
    assert sorted(set(kernels.numbers("device").tolist())) == [0, 1]
    assert profile.require("devices").values("state") == ["active", "active"]
