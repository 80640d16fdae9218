"""`calibrate` as a function: fits recover what made the times, and nothing is written where something fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.calibration.files import calibrations, file_of
from tcprobe.calibration.plan import Case
from tcprobe.calibration.start import Device, MeasureResult
from tcprobe.cost.constants import fitted, load_constants
from tcprobe.cost.measured import gemm_record
from tcprobe.cost.predict import Target, op_cost
from tcprobe.errors import EmptyInput, InputError, MeasurementFailed, OutputError, ToolError, UsageError, WrongFormat
from tcprobe.flows import calibrate as flow
from tcprobe.flows.calibrate import Calibrated, CalibrateOptions, calibrate
from tests.calibration.made import CORES, H200, SLOWER, raw_csv, timed, truth

HERE = Device("torch", "PyTorch 2.13.0", "NVIDIA H200", (9, 0), 132, 150_754_820_096, "13.0", "91002")


FEW = 60  # products of each kind: as good as all of them where nobody asks how close the fit is


def quiet(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw CSV of a GPU with the constants of `truth`."""
    return raw_csv(tmp_path_factory.mktemp("made") / "raw.csv")


def fitted_from(path: Path, **options: object) -> Calibrated:
    return calibrate(CalibrateOptions(raw=path, **options), quiet)  # type: ignore[arg-type]


def test_a_fit_recovers_the_constants_behind_the_times(raw: Path) -> None:
    found = fitted_from(raw)
    assert (found.gpu, found.path, found.worse) == (H200, file_of(H200.id), False)
    kinds = {score.kind: score for score in found.scores}
    assert set(kinds) == {"all", *(f"{a} {b}" for a in ("aligned", "unaligned") for b in ("GEMMs", "convolutions"))}
    assert kinds["aligned GEMMs"].error_pct < 4
    assert kinds["all"].error_pct < 10 < 20 < kinds["all"].shipped_pct
    known = load_constants(H200)
    assert known is not None and known.basis == "calibrated"
    for family in CORES:
        assert known.rates[family].emax == pytest.approx(0.6, rel=0.1)
        assert known.rates[family].t0_ns + known.rates[family].launch_ns == pytest.approx(6000, rel=0.15)
        for pass_ in ("forward", "dgrad", "wgrad"):
            assert known.conv[f"{family}:{pass_}"][1] == pytest.approx(1.5, rel=0.15)
    for key in ("gemm:tc16:odd", "gemm:tc16:even", "gemm:tc16:nt_odd", "gemm:tc16:nt_even", "gemm:tf32:odd"):
        assert known.multipliers[key].mid == pytest.approx(SLOWER[key.rpartition(":")[2]], rel=0.2)


@pytest.mark.parametrize(
    ("emax", "bwf", "t0_ns"), [(0.35, 0.9, 3000.0), pytest.param(0.9, 0.45, 12_000.0, marks=pytest.mark.long)]
)
def test_whatever_the_gpu_a_fit_predicts_what_it_has_not_seen(
    tmp_path: Path, emax: float, bwf: float, t0_ns: float
) -> None:
    constants = truth(H200, emax, bwf, t0_ns)
    fitted_from(raw_csv(tmp_path / "raw.csv", constants=constants))
    known = load_constants(H200)
    for size in ((64, 64, 64), (3000, 5008, 2000), (16, 8192, 8192), (8192, 4095, 4096)):
        record = gemm_record(*size, "float16")
        true, again = (op_cost(record, Target(H200, constants=c)) for c in (constants, known))
        assert true is not None and again is not None
        assert again.basis == "calibrated"
        assert again.timed_ns == pytest.approx(true.timed_ns, rel=0.2)


def test_what_exists_is_replaced_only_by_force(raw: Path) -> None:
    file_of(H200.id).parent.mkdir(parents=True)
    file_of(H200.id).write_text("{", encoding="utf-8")  # also a damaged one
    with pytest.raises(OutputError, match=r"h200-sxm\.json: exists already") as refused:
        fitted_from(raw)
    assert "--force" in str(refused.value.hint)
    assert file_of(H200.id).read_text(encoding="utf-8") == "{"
    fitted_from(raw, force=True)
    assert json.loads(file_of(H200.id).read_text(encoding="utf-8"))["gpu"] == H200.id
    (listed,) = calibrations()
    assert listed.rows is not None and listed.rows > 300
    assert listed.constants.source == "made"


def test_constants_worse_than_the_shipped_ones_are_refused(tmp_path: Path, config: Path) -> None:
    """Times that the shipped constants predict exactly, but for those that are fitted: these are ten times longer."""
    path = raw_csv(tmp_path / "raw.csv", levels=1, constants=shipped())
    from tcprobe.calibration.files import read_raw, split_rows

    fitted_rows = {repr(row.record) for row in split_rows(read_raw(path))[0]}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(read_raw(path), 1):
        if repr(row.record) in fitted_rows:
            cells = lines[number].split(",")
            cells[-2] = f"{10 * row.time_ns:.1f}"
            lines[number] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(MeasurementFailed, match="predict worse than the shipped ones") as refused:
        fitted_from(path)
    assert refused.value.exit_code == 2
    assert not config.exists()
    found = fitted_from(path, force=True)
    assert found.worse
    assert found.path is not None and found.path.is_file()


def shipped() -> object:
    return replace(truth(), rates={f: fitted(H200, f).rate for f in ("tc16", "tf32", "fp32")}, conv={}, multipliers={})


def test_times_that_the_gpu_cannot_reach_are_refused(tmp_path: Path, config: Path) -> None:
    """Rows of an H200 under the name of a T4, fifteen times slower: another GPU's file, or repeated calls merged."""
    path = raw_csv(tmp_path / "raw.csv", levels=1)
    path.write_text(path.read_text(encoding="utf-8").replace("h200-sxm", "t4"), encoding="utf-8")
    with pytest.raises(MeasurementFailed, match="products beat the peak of t4: no times of this GPU"):
        fitted_from(path)
    assert not config.exists()
    assert fitted_from(path, force=True).path == file_of("t4")


def test_too_few_products(tmp_path: Path, raw: Path, config: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("\n".join(raw.read_text(encoding="utf-8").splitlines()[:12]) + "\n", encoding="utf-8")
    with pytest.raises(MeasurementFailed, match="too few products to fit h200-sxm: 11"):
        fitted_from(path)
    assert not config.exists()


def test_files_that_cannot_be_fitted(tmp_path: Path, config: Path) -> None:
    path = tmp_path / "raw.csv"
    with pytest.raises(InputError, match="no such file"):
        fitted_from(path)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="line 1: no column 'gpu'"):
        fitted_from(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(EmptyInput):
        fitted_from(path)
    assert not config.exists()


@pytest.mark.parametrize(
    "options", [{"dry_run": True}, {"output": Path("a.csv")}, {"framework": "jax"}, {"device": 1}, {"budget_s": 9.0}]
)
def test_from_measures_nothing(raw: Path, options: dict[str, object], config: Path) -> None:
    with pytest.raises(UsageError, match="--from measures nothing"):
        fitted_from(raw, **options)
    assert not config.exists()


def test_a_place_that_cannot_be_written(raw: Path, config: Path) -> None:
    config.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(OutputError, match=r"h200-sxm\.json: there is no folder"):
        fitted_from(raw)
    assert config.read_text(encoding="utf-8").startswith("a file")


def test_a_folder_without_permission(raw: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # the tests may run as root, whom nothing is forbidden
    with pytest.raises(OutputError, match="Permission denied"):
        fitted_from(raw)
    assert not config.exists()


class Bench:
    """A machine with a GPU that has the constants of `truth`."""

    def __init__(self, device: Device = HERE) -> None:
        self.devices: dict[str, Device | str] = {"tensorflow": "TensorFlow sees no GPU", "torch": device}
        self.parts: list[list[Case]] = []
        self.budgets: list[float] = []
        self.failure: Exception | None = None
        self.rows = 10_000

    def ask(self, python: str, framework: str, device: str) -> Device | str:
        return self.devices.get(framework, "JAX is not installed")

    def measure(
        self, python: str, device: tuple[str, str], cases: Sequence[Case], path: Path, seconds: float, source: str
    ) -> MeasureResult:
        cases = [case for case in cases if case.level <= 3][: self.rows]
        self.parts.append(list(cases))
        self.budgets.append(seconds)
        lines = [
            ",".join(str(row.get(c, "")) for c in flow.csv_of([]).strip().split(","))
            for row in timed(cases, H200, truth(), path.with_name("scratch.csv"))
        ]
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        if self.failure is not None:
            raise self.failure
        return MeasureResult(len(cases), 3, {"float16: out of luck": 2}, 1)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench()
    monkeypatch.setattr(flow, "ask_device", found.ask)
    monkeypatch.setattr(flow, "measure_cases", found.measure)
    return found


def test_a_gpu_is_measured_fitted_and_kept(bench: Bench, tmp_path: Path) -> None:
    bench.rows = FEW
    said: list[str] = []
    found = calibrate(CalibrateOptions(output=tmp_path / "raw.csv"), said.append)
    assert said == ["measuring through PyTorch 2.13.0, CUDA 13.0, cuDNN 91002, NVIDIA H200, at most 240 s"]
    tensor_cores, plain = bench.parts
    assert {case.dtype for case in tensor_cores} == {"float16", "bfloat16", "tf32"}
    assert {case.dtype for case in plain} == {"float32"}
    assert {case.row["library"] for case in tensor_cores} == {"cublas12"}
    assert 190 < bench.budgets[0] < 0.85 * 240 < bench.budgets[1] <= 240
    assert found.measured is not None
    assert found.measured.done == MeasureResult(len(tensor_cores) + len(plain), 6, {"float16: out of luck": 2}, 2)
    assert found.measured.raw == tmp_path / "raw.csv"
    assert load_constants(H200) is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config", "raw.csv"]
    again = calibrate(CalibrateOptions(raw=tmp_path / "raw.csv", force=True), quiet)
    assert again.scores == found.scores


def test_existing_files_stop_it_before_it_measures(bench: Bench, raw: Path, tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=r"raw\.csv: exists already"):
        calibrate(CalibrateOptions(output=tmp_path / "raw.csv"), quiet)
    with pytest.raises(OutputError, match="there is no folder"):
        calibrate(CalibrateOptions(output=tmp_path / "none" / "raw.csv"), quiet)
    file_of(H200.id).parent.mkdir(parents=True)
    file_of(H200.id).write_text("{}", encoding="utf-8")
    with pytest.raises(OutputError, match=r"h200-sxm\.json: exists already"):
        calibrate(CalibrateOptions(), quiet)
    assert bench.parts == []
    assert (tmp_path / "raw.csv").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("failure", [ToolError("it died"), KeyboardInterrupt()])
def test_what_was_measured_before_a_failure_stays(
    bench: Bench, tmp_path: Path, failure: Exception, config: Path
) -> None:
    bench.failure, bench.rows = failure, FEW
    said: list[str] = []
    with pytest.raises(type(failure)):
        calibrate(CalibrateOptions(output=tmp_path / "raw.csv"), said.append)
    part = tmp_path / "raw.csv.part"
    assert part.is_file() and not (tmp_path / "raw.csv").exists() and not config.exists()
    assert said[-1].startswith(str(part))
    bench.failure = None
    with pytest.raises(OutputError, match=r"raw\.csv\.part: exists already"):  # it is not thrown away either
        calibrate(CalibrateOptions(output=tmp_path / "raw.csv"), quiet)
    assert fitted_from(part).gpu == H200


def test_nothing_measured_leaves_nothing(bench: Bench, tmp_path: Path, config: Path) -> None:
    bench.rows = 0
    with pytest.raises(MeasurementFailed, match="nothing was measured: float16: out of luck"):
        calibrate(CalibrateOptions(output=tmp_path / "raw.csv"), quiet)
    assert list(tmp_path.iterdir()) == []


def test_no_gpu(bench: Bench) -> None:
    bench.devices["torch"] = "PyTorch sees no GPU"
    reasons = "TensorFlow sees no GPU; PyTorch sees no GPU; JAX is not installed"
    with pytest.raises(ToolError, match=f"no GPU to measure on: {reasons}") as refused:
        calibrate(CalibrateOptions(), quiet)
    assert "--dry-run" in str(refused.value.hint)
    with pytest.raises(ToolError, match=r"no GPU to measure on: JAX is not installed$"):
        calibrate(CalibrateOptions(framework="jax"), quiet)


def test_a_gpu_that_the_list_lacks_has_to_be_named(bench: Bench) -> None:
    bench.devices["torch"], bench.rows = replace(HERE, gpu="NVIDIA H900", sm=140), FEW
    with pytest.raises(UsageError, match=r"NVIDIA H900: gpus\.csv does not have this GPU") as refused:
        calibrate(CalibrateOptions(), quiet)
    assert "--target-gpu" in str(refused.value.hint)
    assert calibrate(CalibrateOptions(target="h200-sxm"), quiet).gpu == H200


def test_a_known_gpu_cannot_be_named_otherwise(bench: Bench) -> None:
    with pytest.raises(UsageError, match="the GPU here is h200-sxm, not t4"):
        calibrate(CalibrateOptions(target="t4"), quiet)
    assert bench.parts == []


CUDA = {"10.2": "cublas10", "11.8": "cublas11", "12.5.1": "cublas12", "12 or later": "cublas12"}


@pytest.mark.parametrize(("cuda", "library"), CUDA.items())
def test_the_library_follows_from_cuda(bench: Bench, cuda: str, library: str) -> None:
    bench.devices["torch"], bench.rows = replace(HERE, cuda=cuda), 5
    with pytest.raises(MeasurementFailed, match="too few products"):
        calibrate(CalibrateOptions(), quiet)
    assert {case.row["library"] for part in bench.parts for case in part} == {library}


def test_an_unknown_cuda_is_not_guessed(bench: Bench) -> None:
    bench.devices["torch"] = replace(HERE, cuda=None)
    with pytest.raises(MeasurementFailed, match="does not say for which CUDA"):
        calibrate(CalibrateOptions(), quiet)


def test_a_dry_run_fits_nothing(bench: Bench, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def ask(python: str, framework: str, device: str) -> Device:
        asked.append((python, device))
        return replace(HERE, gpu=None)

    def measure(python: str, where: tuple[str, str], cases: Sequence[Case], path: Path, *rest: object) -> MeasureResult:
        with path.open("a", encoding="utf-8") as file:
            row = {**cases[0].row, "time_ns": 5, "source": "CPU"}
            file.write(flow.csv_of([row]).splitlines()[1] + "\n")
        assert where == ("torch", "cpu")
        return MeasureResult(1, 0, {})

    monkeypatch.setattr(flow, "ask_device", ask)
    monkeypatch.setattr(flow, "measure_cases", measure)
    found = calibrate(CalibrateOptions(dry_run=True), quiet)
    assert asked == [(sys.executable, "cpu")]
    assert (found.gpu, found.path, found.scores) == (None, None, ())
    assert not config.exists()
    with pytest.raises(UsageError, match="--target-gpu does not go with it"):
        calibrate(CalibrateOptions(dry_run=True, target="t4"), quiet)
