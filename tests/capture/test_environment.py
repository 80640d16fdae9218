"""What is set for a workload, what is recorded of it, what its interpreter is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.capture import environment
from tcprobe.errors import ToolError

NO_BUFFERS = "--xla_gpu_enable_command_buffer="


@pytest.mark.parametrize(
    ("device", "inherited", "expected"),
    [
        (None, None, "0"),
        (None, "3,1", "3"),
        (None, "", ""),
        (None, "-1", "-1"),
        ("2", "0,1", "2"),
        ("GPU-5", None, "GPU-5"),
    ],
)
def test_one_gpu_is_left_visible(device: str | None, inherited: str | None, expected: str) -> None:
    assert environment.visible_devices(device, inherited) == expected


def test_nothing_but_the_device_is_set_where_nothing_is_asked() -> None:
    assert environment.variables(None, None, None, None, {}) == {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    ("precision", "inherited", "expected"),
    [
        ("float32", {}, "0"),
        ("float32", {"NVIDIA_TF32_OVERRIDE": "1"}, "0"),
        ("tf32", {}, None),
        ("tf32", {"NVIDIA_TF32_OVERRIDE": "0"}, "1"),
        ("mixed_float16", {"NVIDIA_TF32_OVERRIDE": "0"}, None),
    ],
)
def test_tf32_is_governed_before_the_start(precision: str, inherited: dict[str, str], expected: str | None) -> None:
    chosen = environment.variables(precision, None, None, None, inherited)
    assert chosen.get("NVIDIA_TF32_OVERRIDE") == expected


@pytest.mark.parametrize(
    ("version", "inherited", "expected"),
    [
        ("2.15.1", {}, None),
        ("2.16.0", {}, NO_BUFFERS),
        ("2.21.0+nv26.01", {"XLA_FLAGS": "--a=1"}, f"--a=1 {NO_BUFFERS}"),
        ("3.0", {"XLA_FLAGS": "--xla_gpu_enable_command_buffer=FUSION"}, None),
        (None, {}, None),
    ],
)
def test_command_buffers_go_off_where_the_flag_is_known(
    version: str | None, inherited: dict[str, str], expected: str | None
) -> None:
    assert environment.variables(None, None, None, version, inherited).get("XLA_FLAGS") == expected


def test_clustering_is_asked_for_and_undone() -> None:
    given_on = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}
    assert "--tf_xla_auto_jit=2" in environment.variables(None, True, None, None, {})["TF_XLA_FLAGS"]
    assert environment.variables(None, False, None, None, given_on)["TF_XLA_FLAGS"].endswith("--tf_xla_auto_jit=-1")
    assert "TF_XLA_FLAGS" not in environment.variables(None, None, None, None, given_on)


def test_variables_that_matter_are_recorded_and_secrets_are_not() -> None:
    inherited = {
        "XLA_FLAGS": "--a", "TF_XLA_FLAGS": "b", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "0,1",
        "HOME": "/h", "AWS_SECRET_ACCESS_KEY": "s", "TF_VAR_db_password": "s", "TF_TOKEN_app_terraform_io": "s",
        "HF_TOKEN": "s", "TCPROBE_API_KEY": "s", "NCCL_SOCKET_IFNAME": "eth0", "TF_GPU_AUTH_TOKEN": "s",
        "TCPROBE_LAUNCHER": "run http://me:pw@host/",
    }  # fmt: skip
    assert environment.recorded(inherited, {"CUDA_VISIBLE_DEVICES": "0"}) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_XLA_FLAGS": "b",
        "XLA_FLAGS": "--a",
    }


@given(
    st.dictionaries(st.from_regex(r"[A-Z_]{0,12}(TOKEN|SECRET|PASSWORD|API_KEY)[A-Z_]{0,4}", fullmatch=True), st.text())
)
def test_no_name_that_tells_of_a_secret_is_ever_recorded(inherited: dict[str, str]) -> None:
    assert environment.recorded(inherited, {}) == {}


def test_an_interpreter_tells_its_versions_without_importing() -> None:
    said = environment.ask_interpreter(sys.executable)
    assert said.python == ".".join(str(n) for n in sys.version_info[:3])
    assert said.has_tensorflow == bool(said.tensorflow)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo 'bad flag' >&2; exit 3", "is no Python that can be asked for its version: bad flag"),
        ("exit 3", "exit code 3"),
        ("echo '{}'", "is no Python"),
    ],
)
def test_what_is_no_python_is_named(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ToolError, match=expected.replace(".", r"\.")):
        environment.ask_interpreter(script(tmp_path / "python", text))


@pytest.mark.parametrize(
    ("python", "runs"), [("3.6.9", False), ("3.7.16", False), ("3.8.0", True), ("3.14.0rc1", True)]
)
def test_the_probe_needs_python_3_8(tmp_path: Path, python: str, runs: bool) -> None:
    said = f'{{"python": "{python}", "tensorflow": null, "keras": null, "present": false}}'
    assert environment.ask_interpreter(script(tmp_path / "python", f"echo '{said}'")).runs_probe is runs


@pytest.mark.parametrize("between", ["", "\n"])
def test_ranks_may_answer_on_one_line(tmp_path: Path, between: str) -> None:
    """As Open MPI hands on what two ranks print at once: ``{...}{...}`` and two ends of lines."""
    said = '{"python": "3.11.7", "tensorflow": "2.21.0", "keras": null, "present": true}'
    mpirun = script(tmp_path / "mpirun", f"cat <<'END'\n{said}{between}{said}\n\nEND")
    assert environment.ask_interpreter(sys.executable, (mpirun,)).tensorflow == "2.21.0"


def test_a_path_may_not_be_there_behind_a_launcher(tmp_path: Path) -> None:
    paths = [tmp_path, tmp_path / "none"]
    assert environment.sees(paths, sys.executable, ("env", "X=1")) == {tmp_path}
    assert environment.sees(paths, sys.executable, ("nowhere",)) is None
    assert environment.sees(paths, sys.executable, ("false",)) is None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "----\nmpirun has detected an attempt to run as root.\n\nuse --allow-run-as-root",
            "does not start a job as root",
        ),
        ("---\nThere are not enough slots available in the system to satisfy the 9\nslots that", "no room for 9 ranks"),
    ],
)
def test_what_open_mpi_refuses_is_one_line(tmp_path: Path, said: str, message: str) -> None:
    mpirun = script(tmp_path / "mpirun", f"cat >&2 <<'END'\n{said}\nEND\nexit 1")
    with pytest.raises(ToolError, match=message):
        environment.ask_interpreter(sys.executable, (mpirun,))


def test_an_interpreter_that_is_missing_is_named() -> None:
    with pytest.raises(ToolError, match="/nowhere/python: no such program"):
        environment.ask_interpreter("/nowhere/python")
    with pytest.raises(ToolError, match="nowhere: no such program"):
        environment.ask_interpreter(sys.executable, ("nowhere",))


def test_a_launcher_stands_before_the_interpreter() -> None:
    assert environment.ask_interpreter(sys.executable, ("env", "X=1")).python


def test_the_driver_is_asked_where_the_kernel_module_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/sys/module/nvidia/version").exists():
        pytest.skip("this machine has a driver of its own")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.driver_version() is None
    script(tmp_path / "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    assert environment.driver_version() is None
    script(tmp_path / "nvidia-smi", "echo 535.104.05; echo 535.104.05")
    assert environment.driver_version() == "535.104.05"
