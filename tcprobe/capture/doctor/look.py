"""Ask an interpreter, in a process of its own, what its frameworks are built for and which GPUs they see."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Final

import msgspec
from msgspec import Struct

LOOK_SECONDS: Final = 120  # importing a framework from a cold, remote disk can take a minute
QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
LOOK: Final = r"""
import ctypes, glob, importlib, json, os, sys
from importlib import metadata, util
def version(*names):
    for one in names:
        try:
            return metadata.version(one)
        except Exception:
            pass
def cupti(cuda):
    major = cuda.split(".")[0]
    inside = [os.path.join(path, "nvidia", "*", "lib", "libcupti.so*") for path in sys.path]
    own = ["libcupti.so." + cuda, "libcupti.so." + major, "libcupti.so"]
    own.append("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so")
    for path in own + [found for one in inside for found in glob.glob(one)]:
        try:
            ctypes.CDLL(path)
            return True
        except OSError:
            pass
    return False
names = sys.argv[1:]
if len(names) > 1:
    print("\n" + json.dumps({name: version(name) for name in names if util.find_spec(name)}))
else:
    name = names[0]
    module, cuda, gpus = importlib.import_module(name), None, []
    seen = {"version": getattr(module, "__version__", None) or version(name)}
    if name == "tensorflow":
        cuda = getattr(module.sysconfig, "get_build_info", dict)().get("cuda_version")
        gpus = module.config.list_physical_devices("GPU")
    elif name == "torch":
        cuda, gpus = module.version.cuda, range(module.cuda.device_count())
    elif name == "jax":
        cuda = "13" if version("jax-cuda13-plugin") else "12" if version("jax-cuda12-plugin") else None
        try:
            gpus = module.devices("gpu")
        except RuntimeError:
            pass
    seen.update(cuda=cuda, gpus=len(gpus), cupti=cupti(cuda) if cuda and name == "tensorflow" else None)
    print("\n" + json.dumps(seen))
"""


class Look(Struct, frozen=True):
    """What a framework says in an interpreter's process; None where it does not say."""

    version: str | None = None
    cuda: str | None = None  # version that it was built for
    gpus: int = 0  # how many it sees
    cupti: bool | None = None  # whether CUDA's library for profilers was found; of TensorFlow for GPUs alone
    failure: str = ""  # the last line of a process that failed
    silent: bool = False  # whether it gave no answer in time


def installed(python: str, *packages: str) -> dict[str, str | None]:
    """Return the versions of those of two or more packages that an interpreter has; nothing is imported."""
    answer = _answer(python, *packages)
    return {name: answer[name] for name in packages if name in answer} if isinstance(answer, dict) else {}


def look_at(python: str, framework: str) -> Look:
    """Return what a framework says, which a process of an interpreter imports."""
    answer = _answer(python, framework)
    return answer if isinstance(answer, Look) else msgspec.convert(answer, Look)


def _answer(python: str, *names: str) -> dict[str, Any] | Look:
    try:
        done = subprocess.run(
            [python, "-c", LOOK, *names],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOOK_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**QUIET, **os.environ},
        )
    except subprocess.TimeoutExpired:
        return Look(silent=True)
    except OSError as error:
        return Look(failure=error.strerror or "cannot be started")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("{")]
    try:
        return dict(json.loads(lines[-1]))
    except (IndexError, ValueError):
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return Look(failure=said[:200])
