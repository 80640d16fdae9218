"""A workload's environment: the variables to set and record, the packages of its interpreter, the host."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.capture import smi
from tcprobe.capture.program import refusal
from tcprobe.errors import ToolError
from tcprobe.masking import mask_text

PROBE_SINCE: Final = (3, 8)
NAMED_OPS: Final = "TF_ENABLE_NVTX_RANGES"
"""NVIDIA's TensorFlow names its ops to NVTX only if this is 1 (in later builds); others ignore it."""
COMMAND_BUFFERS_SINCE: Final = (2, 16)
"""First TensorFlow whose XLA knows ``--xla_gpu_enable_command_buffer``; older ones abort on an unknown flag."""

RECORDED_VARIABLES: Final = re.compile(
    r"CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING|CACHE_DISABLE)|NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)"
    r"|XLA_(FLAGS|PYTHON_CLIENT_\w+)|TF_(XLA_FLAGS|CPP_\w+|GPU_\w+|CUDNN_\w+|CUBLAS\w+|DEBUG_CUDNN\w+|USE_\w+|MATMUL_\w+"
    r"|ENABLE_\w+|DISABLE_\w+|DETERMINISTIC_OPS|FORCE_GPU_ALLOW_GROWTH|AUTO_MIXED_PRECISION_\w+|AUTOTUNE_THRESHOLD"
    r"|NUM_(INTEROP|INTRAOP)_THREADS|LAYOUT_OPTIMIZER_\w+)|CUDNN_\w+|CUBLAS\w+|NCCL_\w+|NVTX_\w+|KERAS_BACKEND"
    r"|OMP_NUM_THREADS|MKL_\w+|TCPROBE_\w+"
)
LEFT_OUT: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH(?!ENTIC)|API_?KEY|PRIVATE", re.IGNORECASE)
"""Names of variables that are not recorded at all, whatever they hold."""
URL_PASSWORD: Final = re.compile(r"://[^/\s@]+@")

ASK: Final = """
import json, sys
try:
    from importlib import metadata
    from importlib.util import find_spec
except ImportError:
    metadata = find_spec = None
def version(*names):
    for name in names:
        try:
            return metadata.version(name)
        except Exception:
            pass
tensorflow = version("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tensorflow-intel",
                     "tensorflow-macos", "tensorflow-rocm", "nvidia-tensorflow")
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "tensorflow": tensorflow,
                  "keras": version("keras", "keras-nightly"),
                  "present": bool(tensorflow or (find_spec and find_spec("tensorflow")))}))
"""


class PythonInfo(Struct, frozen=True):
    """A Python interpreter and what is installed in it, from package metadata; nothing is imported."""

    python: str  # its version
    # tensorflow, keras: versions of the installed packages, if their metadata tells.
    tensorflow: str | None
    keras: str | None
    has_tensorflow: bool  # whether ``import tensorflow`` would find something

    @property
    def runs_probe(self) -> bool:
        """Whether the probe can run in it."""
        return (version_tuple(self.python) or (0, 0)) >= PROBE_SINCE


@cache
def ask_interpreter(python: str, launcher: tuple[str, ...] = ()) -> PythonInfo:
    """Ask an interpreter which TensorFlow is installed, without importing it.

    Raises:
        ToolError: it cannot be started, or is no Python.
    """
    command = [*launcher, python, "-c", ASK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ToolError(f"{error.filename}: no such program", _where_else(launcher)) from error
    except OSError as error:
        raise ToolError(
            f"{command[0]}: cannot be started: {error.strerror}", "check --python and --launcher"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{' '.join(command[:-2])}: no answer within 300 s", "check --launcher") from error
    return _answer(command, done)


def _where_else(launcher: tuple[str, ...]) -> str:
    if launcher:
        return "check --launcher; its first word must be a program on PATH"
    found = shutil.which("python3")
    return f"--python takes the path of an interpreter, as in --python {found or '/usr/bin/python3'}"


def _answer(command: list[str], done: subprocess.CompletedProcess[str]) -> PythonInfo:
    shown = " ".join(command[:-2])
    try:  # the last answer: a launcher of several ranks may print two on one line
        said, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.rindex("{"))
        return PythonInfo(str(said["python"]), said["tensorflow"], said["keras"], said["present"])
    except (ValueError, KeyError, TypeError) as error:
        if (refused := refusal(done.stderr)) is not None:
            raise refused from error
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise ToolError(f"{shown}: is no Python that can be asked for its version: {last[:200]}") from error


def sees(paths: Sequence[Path], python: str, launcher: tuple[str, ...]) -> frozenset[Path] | None:
    """Return which files and folders an interpreter behind a launcher finds; None where it does not answer.

    Of several ranks all must find them.
    """
    ask = "import os, sys; print('<%s>' % ''.join('01'[os.path.exists(path)] for path in sys.argv[1:]))"
    command = [*launcher, python, "-c", ask, *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    answers = re.findall(rf"<([01]{{{len(paths)}}})>", done.stdout)
    return frozenset(p for at, p in enumerate(paths) if all(a[at] == "1" for a in answers)) if answers else None


def version_tuple(version: str | None) -> tuple[int, int] | None:
    """Return major and minor version of text like ``2.16.1+nv24.05``; None if it has none."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else None


def variables(
    precision: str | None,
    xla: bool | None,
    device: str | None,
    tensorflow: str | None,
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables to set for a workload in addition to the inherited ones.

    Args:
        precision: float32 and tf32 set NVIDIA_TF32_OVERRIDE, which is read when the libraries load.
        xla: True asks for auto-clustering, False undoes an inherited setting, None leaves it.
        device: value of CUDA_VISIBLE_DEVICES; None keeps the first of the GPUs that are visible now.
        tensorflow: version in the workload's interpreter; if None (unknown), no flag that depends on it is set.
        inherited: the current variables; by default those of this process.
    """
    now = os.environ if inherited is None else inherited
    chosen = {"CUDA_VISIBLE_DEVICES": visible_devices(device, now.get("CUDA_VISIBLE_DEVICES"))}
    if precision == "float32":
        chosen["NVIDIA_TF32_OVERRIDE"] = "0"
    elif precision == "tf32" and now.get("NVIDIA_TF32_OVERRIDE", "1") != "1":
        chosen["NVIDIA_TF32_OVERRIDE"] = "1"
    clustering = now.get("TF_XLA_FLAGS", "")
    if xla:
        chosen["TF_XLA_FLAGS"] = f"{clustering} --tf_xla_auto_jit=2 --tf_xla_cpu_global_jit".strip()
    elif xla is False and "--tf_xla_auto_jit" in clustering:
        chosen["TF_XLA_FLAGS"] = f"{clustering} --tf_xla_auto_jit=-1"
    flags = now.get("XLA_FLAGS", "")
    known = version_tuple(tensorflow)
    if known and known >= COMMAND_BUFFERS_SINCE and "--xla_gpu_enable_command_buffer" not in flags:
        # Kernels launched by a CUDA graph have no op; an empty list of commands turns the graphs off.
        chosen["XLA_FLAGS"] = f"{flags} --xla_gpu_enable_command_buffer=".strip()
    return chosen


def visible_devices(device: str | None, inherited: str | None) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES: what was asked for, else the first visible GPU, else 0."""
    if device is not None:
        return device
    if inherited is None:
        return "0"
    return inherited.split(",")[0].strip()


def recorded(inherited: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that affect the figures, as the workload saw them, secrets in them masked.

    One whose name is a secret's, or that holds a URL with a password, is left out.
    """
    seen = {**inherited, **chosen}
    return {
        name: mask_text(seen[name])
        for name in sorted(seen)
        if RECORDED_VARIABLES.fullmatch(name) and not LEFT_OUT.search(name) and not URL_PASSWORD.search(seen[name])
    }


def driver_version() -> str | None:
    """Return the version of this machine's NVIDIA driver; None if none is found."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        pass
    first = smi.query(("driver_version",)).rows[:1]
    return first[0][0] if first and re.fullmatch(r"[\d.]+", first[0][0]) else None


def host_facts() -> dict[str, Any]:
    """Return the keys of run.json that describe the host."""
    return {"host": platform.node() or None, "driver": driver_version()}
