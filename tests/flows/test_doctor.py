"""`doctor`: what it says of machines whose nvidia-smi, frameworks and profilers are made up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from tcprobe.capture import dlprof, nsys, program, smi
from tcprobe.capture.doctor import machine, trial
from tcprobe.flows import doctor
from tcprobe.flows.doctor import Diagnosis, diagnose
from tcprobe.report.doctor import SAYS, data_of_checks, lines_of_checks
from tcprobe.schema.statement import Check, CheckKind
from tests.fixtures.ncu.make import DENIED, raw
from tests.readers.nsys.made import Made
from tests.support import ROOT

SMI: Final = """#!{python}
import sys
cards, listed, code = {cards!r}, {listed!r}, {code!r}
word = sys.argv[1]
if word == "-L":
    print(listed)
elif "compute_cap" in word and {old!r}:
    print('Field "compute_cap" is not a valid field to query.')
    sys.exit(2)
else:
    names = word.partition("=")[2].split(",")
    print("\\n".join(", ".join(card[n] for n in names) for card in cards) if cards else {text!r})
sys.exit(code)
"""
MISMATCH: Final = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161"
NO_DRIVER: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running."
)
H100_LIST: Final = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
  MIG 3g.40gb     Device  0: (UUID: MIG-2)
  MIG 1g.10gb     Device  1: (UUID: MIG-3)"""
PACKAGES: Final = {
    "tensorflow": "from types import SimpleNamespace as S\n__version__ = {version!r}\n"
    "sysconfig = S(get_build_info=lambda: {{'cuda_version': {cuda!r}}} if {cuda!r} else {{}})\n"
    "config = S(list_physical_devices=lambda kind: [0] * {gpus})\n",
    "torch": "from types import SimpleNamespace as S\n__version__ = {version!r}\n"
    "version = S(cuda={cuda!r})\ncuda = S(device_count=lambda: {gpus})\n",
}


def card(
    name: str, capability: str, driver: str = "550.54.15", mig: str = "[N/A]", mib: str = "15360"
) -> dict[str, str]:
    told = {"index": "0", "name": name, "driver_version": driver, "memory.total": mib, "mig.mode.current": mig}
    return {**told, "compute_cap": capability}


BUILD: Final = program.Build(None, "", frozenset(("--trace", "--output")), {})
T4: Final = card("Tesla T4", "7.5")
H100: Final = card("NVIDIA H100 80GB HBM3", "9.0", mib="81559")


class Place:
    """A machine whose PATH and Python path hold what a test puts there."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        patch.setenv("PATH", str(self.bin))
        patch.setenv("PYTHONPATH", str(folder))
        for name in ("CUDA_VISIBLE_DEVICES", "NVTX_DISABLE", "KUBERNETES_SERVICE_HOST"):
            patch.delenv(name, raising=False)
        patch.setattr(machine, "DRIVER_SETTINGS", folder / "params")
        patch.setattr(machine, "MARKS", {})
        patch.setattr(doctor, "LOW_BYTES", 0)
        patch.setattr(doctor, "FULL_BYTES", 0)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def smi(self, *cards: dict[str, str], text: str = "", code: int = 0, listed: str = "", old: bool = False) -> None:
        told = {"cards": cards, "text": text, "code": code, "listed": listed, "old": old}
        self.program("nvidia-smi", SMI.format(python=sys.executable, **told))

    def package(self, name: str, version: str, cuda: str | None, gpus: int) -> None:
        text = PACKAGES[name].format(version=version, cuda=cuda, gpus=gpus)
        (self.folder / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def told(made: Diagnosis) -> dict[str, dict[str, Any]]:
    """Return the lines by their kind."""
    return {row["kind"]: row for row in data_of_checks(made.profiler, made.checks)}


def gpus() -> dict[str, dict[str, Any]]:
    """Return the lines on GPUs and driver alone, as `auto` has them."""
    return told(Diagnosis("tensorflow", tuple(doctor._gpus(*smi.devices()))))


@pytest.mark.parametrize(
    ("one", "cores", "state", "says"),
    [
        (T4, "yes", "ok", "Tesla T4, 15.0 GiB, compute capability 7.5: has Tensor Cores"),
        (H100, "yes", "ok", "has Tensor Cores"),
        (card("NVIDIA GeForce GTX 1650", "7.5"), "no", "warning", "7.5: has no Tensor Cores, as TU116 and TU117"),
        (card("Tesla P100-PCIE-16GB", "6.0"), "no", "warning", "6.0: has no Tensor Cores"),
        (card("NVIDIA Of Tomorrow", "13.0"), "yes", "ok", "has Tensor Cores"),
        (card("NVIDIA Of Tomorrow", "[N/A]", mib="[N/A]"), "unknown", "warning", "Tomorrow: whether it has"),
    ],
)
def test_tensor_cores_by_name_and_by_capability(
    place: Place, one: dict[str, str], cores: str, state: str, says: str
) -> None:
    place.smi(one)
    row = gpus()["gpu"]
    assert (row["values"]["tensor_cores"], row["state"]) == (cores, state)
    assert says in row["text"] and (row["remedy"] is None) == (state == "ok")


def test_an_old_driver_is_asked_for_less(place: Place) -> None:
    place.smi(card("NVIDIA GeForce GTX 1650", "", driver="450.80.02"), old=True)
    found = gpus()
    assert found["gpu"]["values"] | {"memory_bytes": 0} == {
        "name": "NVIDIA GeForce GTX 1650",
        "tensor_cores": "no",
        "memory_bytes": 0,
        "compute_capability": None,
    }
    assert found["driver"]["text"] == "450.80.02, runs CUDA to 11"


@pytest.mark.parametrize(
    ("text", "code", "kind", "remedy"),
    [
        (MISMATCH, 18, "driver_mismatch", "reboot"),
        (NO_DRIVER, 9, "driver_absent", "modprobe nvidia"),
        ("No devices were found", 0, "no_devices", "--gpus all"),
        ("No devices were found", 6, "no_devices", "--gpus all"),
        ("Unable to determine the device handle", 255, "smi_failed", "by hand"),
        ("", 0, "smi_failed", "by hand"),
        (None, 0, "smi_missing", "install the driver"),
    ],
)
def test_why_no_gpu_is_seen(place: Place, text: str | None, code: int, kind: str, remedy: str) -> None:
    if text is not None:
        place.smi(text=text, code=code)
    (row,) = gpus().values()
    assert (row["kind"], row["state"]) == (kind, "problem") and remedy in row["remedy"]


def test_a_driver_that_hangs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "ANSWER_SECONDS", 0.05)
    place.program("nvidia-smi", f"#!{sys.executable}\nimport time; time.sleep(9)\n")
    assert list(gpus()) == ["smi_silent"]


@pytest.mark.parametrize(
    ("listed", "kind", "state", "says"),
    [
        (H100_LIST, "mig", "warning", "3g.40gb, 1g.10gb"),
        (H100_LIST.splitlines()[0], "mig_empty", "problem", "no instance"),
    ],
)
def test_a_gpu_that_is_divided(place: Place, listed: str, kind: str, state: str, says: str) -> None:
    place.smi({**H100, "mig.mode.current": "Enabled"}, listed=listed)
    row = gpus()[kind]
    assert row["state"] == state and says in row["text"] and row["remedy"]


def test_a_machine_that_records(place: Place) -> None:
    place.smi(T4)
    place.package("tensorflow", "2.21.0", "12.5", 1)
    place.package("torch", "2.9.0", "12.8", 1)
    (place.folder / "params").write_text("Foo: 1\nRmProfilingAdminOnly: 0\n")
    made = diagnose()
    rows = {row["check"]: row for row in data_of_checks(made.profiler, made.checks)}
    assert (made.profiler, made.problems) == ("tensorflow", 0)
    assert rows["tensorflow"]["text"] == "2.21.0, for CUDA 12.5; sees 1 GPU"
    assert rows["torch"]["text"] == "2.9.0, for CUDA 12.8; sees 1 GPU"
    assert rows["jax"]["kind"] == "framework_absent" and rows["jax"]["state"] == "ok"
    assert rows["counters"]["kind"] == "counters_free"
    assert rows["cupti"]["state"] in ("ok", "warning")  # this machine may have it
    assert lines_of_checks(made.profiler, "it", made.checks, 80)[-1] == "nothing here stops it"


def test_for_nsys_what_stops_tensorflow_is_no_problem(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys, "try_ranges", lambda *_: nsys.Trial("ctypes", True, ""))
    place.smi(T4)
    place.package("tensorflow", "2.21.0", None, 0)
    help_text = "--trace=nvtx,cuda\n--output="
    place.program("nsys", f"#!{sys.executable}\nprint('NVIDIA Nsight Systems version 2025.3.1', {help_text!r})\n")
    made = diagnose(profiler="nsys")
    rows = told(made)
    assert made.problems == 0 and rows["framework_blind"]["state"] == "warning"
    assert rows["tool"]["text"].startswith("2025.3.1, ")
    assert Diagnosis("tensorflow", made.checks).problems == 1
    assert Diagnosis("dlprof", made.checks).problems == 1  # it is not on PATH


LOOKS: Final = [
    (doctor.Look("2.21.0", "13.0"), "535.1", "framework_too_new", "from 580 on"),
    (doctor.Look("2.10.0", "11.2"), "535.1", "framework_blind", "say what library is missing"),
    (doctor.Look("2.21.0", None), "535.1", "framework_blind", "tensorflow[and-cuda]"),
    (doctor.Look(failure="ImportError: libfoo.so"), "535.1", "framework_broken", "says more"),
    (doctor.Look(silent=True), "535.1", "framework_silent", "by hand"),
    (None, "535.1", "framework_absent", "--python"),
]


@pytest.mark.parametrize(
    ("look", "driver", "kind", "remedy"), LOOKS, ids=[f"{c[2]} {c[0] and c[0].cuda}" for c in LOOKS]
)
def test_a_framework_that_uses_no_gpu(
    place: Place, look: doctor.Look | None, driver: str, kind: str, remedy: str
) -> None:
    found = tuple(doctor._framework("tensorflow", look, (smi.Device(0, "T4", driver, None, (7, 5), False),)))
    (row,) = told(Diagnosis("tensorflow", found)).values()
    assert (row["kind"], row["state"]) == (kind, "problem") and remedy in row["remedy"]
    assert told(Diagnosis("nsys", found))[kind]["state"] == "warning"


@pytest.mark.parametrize(
    ("trial", "kinds"),
    [
        (nsys.Trial("0.2.17", True, ""), {"nvtx_heard": "ok"}),
        (nsys.Trial("", True, "KeyError"), {"nvtx_unheard": "problem"}),
        (nsys.Trial("ctypes", False, ""), {"nvtx_heard": "ok", "no_importer": "problem"}),
        (nsys.Trial("ctypes", None, ""), {"nvtx_heard": "ok", "nsys_endless": "warning"}),
    ],
)
def test_ranges_are_tried_where_nsys_is(
    place: Place, monkeypatch: pytest.MonkeyPatch, trial: nsys.Trial, kinds: dict[str, str]
) -> None:
    monkeypatch.setattr(nsys, "try_ranges", lambda *_: trial)
    rows = told(Diagnosis("nsys", tuple(doctor._ranges("python", BUILD))))
    assert {kind: row["state"] for kind, row in rows.items()} == kinds
    monkeypatch.setenv("NVTX_DISABLE", "1")
    assert list(told(Diagnosis("nsys", tuple(doctor._ranges("python", BUILD))))) == ["nvtx_disabled"]


@pytest.mark.parametrize(
    ("by", "version", "state"), [("ctypes", "0.2.17", "warning"), ("0.2.11", "0.2.11", "ok"), ("ctypes", None, "ok")]
)
def test_a_package_whose_ranges_nsys_does_not_hear(by: str, version: str | None, state: str) -> None:
    """nsys 2022.4 and nvtx 0.2.17: the trial's range came through without the package."""
    tried = Check("ranges", doctor._seen("nvtx_heard", by=by))
    assert doctor._nvtx(version, [tried]).state("nsys") == state


def test_a_tool_that_nobody_can_tell_ranges_hears_none(place: Place) -> None:
    place.program("nsys", '#!/bin/sh\nshift 3; "$@"\n')  # it sets no NVTX_INJECTION64_PATH
    tried = nsys.try_ranges(sys.executable, BUILD)
    assert (tried.by, tried.reported) == ("", False) and "NVTX_INJECTION64_PATH" in tried.text


@pytest.mark.nsys
def test_a_real_nsys_hears_ranges() -> None:
    tried = nsys.try_ranges(sys.executable, program.ask_build(nsys.NSYS, ()))
    assert tried.by and tried.reported, tried.text


NSYS: Final = """#!{python}
import shutil, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
value = {{word.partition("=")[0]: word.partition("=")[2] for word in words}}
if words[0] == "export":
    shutil.copy({database!r}, value["--output"])
    sys.exit()
subprocess.run(words[next(n for n, word in enumerate(words) if word == sys.executable):], check=True)
if {recorded!r}:
    Path(value["--output"] + ".nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report ")
else:
    print("no CUDA trace: " + value["--trace"])
"""
NCU: Final = """#!{python}
import sys
from pathlib import Path
value = {{word.partition("=")[0]: word.partition("=")[2] for word in sys.argv[1:]}}
Path(value["--log-file"]).write_text({said!r})
"""
LAUNCHED: Final = "print('launched')"


def tried(builds: tuple[str, ...], looks: dict[str, doctor.Look] | None = None) -> dict[str, dict[str, Any]]:
    """Return the lines of the trials on a GPU, by check."""
    found = doctor._trials(sys.executable, True, dict.fromkeys(builds, BUILD), looks or {})
    return {row["check"]: row for row in data_of_checks("ncu", tuple(found))}


def test_each_profiler_is_tried_where_a_gpu_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "KERNEL", LAUNCHED)
    made = Made()
    for at in range(trial.LAUNCHES):
        made.launch("tcprobe_trial", 10 * at, 10 * at + 2, 10 * at + 5)
    database = str(made.write(place.folder / "made.sqlite"))
    place.program("nsys", NSYS.format(python=sys.executable, database=database, recorded=True))
    place.program("ncu", NCU.format(python=sys.executable, said=raw()))
    rows = tried(("nsys", "ncu"))
    assert {check: (row["kind"], row["state"]) for check, row in rows.items()} == {
        "nsys": ("trial", "ok"),
        "ncu": ("trial", "ok"),
    }
    assert rows["nsys"]["text"].startswith("recorded 8 kernels of a trial in ")
    assert rows["ncu"]["values"]["kernels"] == 5


def test_a_profiler_that_records_no_kernel_is_a_problem_for_who_takes_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "KERNEL", LAUNCHED)
    place.program("nsys", NSYS.format(python=sys.executable, database="", recorded=False))
    place.program("ncu", NCU.format(python=sys.executable, said=DENIED))
    rows = tried(("nsys", "ncu"))
    assert (rows["nsys"]["kind"], rows["nsys"]["state"]) == ("trial_empty", "warning")
    assert rows["nsys"]["text"] == "recorded no kernel of a trial: no CUDA trace: cuda"
    assert (rows["ncu"]["kind"], rows["ncu"]["state"]) == ("trial_empty", "problem")
    assert "ERR_NVGPUCTRPERM" in rows["ncu"]["text"] and "NVreg_Restrict" in rows["ncu"]["remedy"]


def test_tensorflow_is_tried_where_it_sees_a_gpu(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "KERNEL", LAUNCHED)
    source = ROOT / "tests" / "fixtures" / "h100" / "jax_tf32.xplane.pb"
    text = f"import shutil, sys; shutil.copy({str(source)!r}, sys.argv[1])"
    monkeypatch.setattr(trial, "TENSORFLOW", text)
    assert tried((), {"tensorflow": doctor.Look("2.21.0", "12.5", 1)})["tensorflow"]["kind"] == "trial"
    assert tried((), {"tensorflow": doctor.Look("2.21.0", "12.5", 0)}) == {}


def test_dlprof_is_tried_in_a_folder_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(trial, "KERNEL", LAUNCHED)
    fake, here = ROOT / "tests" / "fixtures" / "fake_dlprof" / "dlprof", tmp_path_factory.mktemp("here")
    place.program("dlprof", f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(fake)!r}, run_name='__main__')\n")
    monkeypatch.chdir(here)
    found = doctor._trials(sys.executable, True, {"dlprof": dlprof.ask_build(())}, {})
    (row,) = told(Diagnosis("dlprof", tuple(found))).values()
    assert (row["kind"], row["state"]) == ("trial", "ok"), row
    assert not list(here.iterdir())


def test_a_trial_that_does_not_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "KERNEL", LAUNCHED)
    place.program("ncu", f"#!{sys.executable}\nimport time; time.sleep(30)\n")
    monkeypatch.setattr(trial, "LONGEST_S", 1.0)
    assert tried(("ncu",))["ncu"]["text"] == "a trial of a moment did not end within 1 s"


def test_why_no_profiler_is_tried(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "KERNEL", "import sys; sys.exit('cuInit: error 100 of CUDA')")
    (row,) = tried(("nsys",)).values()
    assert (row["kind"], row["state"]) == ("trial_not_launched", "warning") and "cuInit: error 100" in row["text"]
    (row,) = told(Diagnosis("nsys", tuple(doctor._trials("python", False, {}, {})))).values()
    assert (row["kind"], row["state"]) == ("trial_without_gpu", "warning") and row["remedy"]


CUDA: Final = """
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int number) { *device = 3; return number; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(1L << 40); return device != 3; }
int cuCtxSetCurrent(void *context) { return context != (void *)(1L << 40); }
int cuModuleLoadData(void **module, const char *text) { *module = (void *)(2L << 40); return !strstr(text, "entry tcprobe_trial()"); }
int cuModuleGetFunction(void **kernel, void *module, const char *name)
{ *kernel = (void *)(3L << 40); return module != (void *)(2L << 40) || strcmp(name, "tcprobe_trial"); }
int launched = 0;
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **given, void **extra)
{ launched++; return kernel != (void *)(3L << 40) || gx * gy * gz != 1 || bx * by * bz != 32 || shared || stream || given || extra; }
int cuCtxSynchronize(void) { return launched == LAUNCHES ? 0 : 700; }
"""  # noqa: E501


def test_the_program_of_a_trial_calls_cuda_as_its_header_says(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that takes what cuda.h declares, pointers in 64 bits, and says so with 0."""
    compiler = shutil.which("cc", path=os.defpath) or pytest.skip("no C compiler is here")
    (place.folder / "cuda.c").write_text(CUDA)
    library = place.folder / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", f"-DLAUNCHES={trial.LAUNCHES}", "-o", library, place.folder / "cuda.c"]
    subprocess.run(command, check=True, env={"PATH": os.defpath})
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place.folder))
    made = trial.launch(sys.executable, place.folder)
    assert (made.failed, made.text) == (False, "")


def test_what_crashes_is_told_by_its_last_line(place: Place) -> None:
    (place.folder / "torch.py").write_text("import os, sys; print('CUDA is broken', file=sys.stderr); os.abort()")
    assert doctor.look_at(sys.executable, "torch").failure == "CUDA is broken"


def test_what_does_not_go_with_dlprof(place: Place) -> None:
    place.program("dlprof", f"#!{sys.executable}\nprint('DLProf v1.8.0 --nsys_opts --reports')\n")
    looks = {"tensorflow": doctor.Look("2.21.0", "12.5", 1), "torch": doctor.Look("1.11.0", "11.3", 1)}
    found = tuple(doctor._programs("python", (smi.Device(0, "H100", None, None, (9, 0), False),), looks))
    rows = told(Diagnosis("dlprof", found))
    assert {"dlprof_alone", "dlprof_before_gpu", "dlprof_before_framework"} <= set(rows)
    assert rows["dlprof_alone"]["state"] == "problem" and rows["dlprof_before_framework"]["state"] == "warning"
    assert rows["dlprof_before_framework"]["text"].endswith("knows TensorFlow to 2.6, not 2.21.0")


@pytest.mark.parametrize(
    ("params", "rights", "who"),
    [("RmProfilingAdminOnly: 1", "0", "admin"), ("RmProfilingAdminOnly: 1", "200000", "root"), ("", "0", None)],
)
def test_who_may_read_counters(
    place: Place, monkeypatch: pytest.MonkeyPatch, params: str, rights: str, who: str | None
) -> None:
    (place.folder / "params").write_text(params)
    (place.folder / "status").write_text(f"Name: x\nCapEff:\t{rights}\n")
    monkeypatch.setattr(machine, "OWN_STATUS", place.folder / "status")
    assert machine.counters() == who
    for check in doctor._counters():
        assert "NVreg_RestrictProfilingToAdminUsers=0" in str(told(Diagnosis("nsys", (check,)))) or who == "root"


def test_amx_is_told_by_the_flags_of_the_cpu(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    info = place.folder / "cpuinfo"
    monkeypatch.setattr(machine, "CPU", info)
    info.write_text("model name\t: Xeon 8480\nflags\t\t: fpu amx_bf16 amx_tile\n")
    assert machine.cpu() == ("Xeon 8480", True)
    info.write_text("model name\t: EPYC\nflags\t\t: fpu avx512_bf16\n")
    assert machine.cpu() == ("EPYC", False)


def test_every_kind_has_its_sentence() -> None:
    assert set(SAYS) == set(get_args(CheckKind))


def test_a_machine_without_a_gpu_as_a_user_sees_it(place: Place) -> None:
    """Exit code 1, what to do on each line that is no `ok`, nothing on standard error, and the same as JSON."""
    place.package("tensorflow", "2.21.0", None, 0)
    run = [sys.executable, "-m", "tcprobe", "doctor", "--json"]
    environment = {"PATH": str(place.bin), "PYTHONPATH": f"{ROOT}:{place.folder}"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, "")
    said = json.loads(done.stdout)
    assert said["profiler"] == "tensorflow" and said["problems"] == 1
    assert all(row["remedy"] for row in said["checks"] if row["state"] != "ok")
    assert {row["check"] for row in said["checks"]} >= {"gpu", "tensorflow", "nsys", "ncu", "dlprof", "cpu", "disk"}
