"""What `tcprobe doctor` says: a line for each check, how it stands and what to do.

What `redact` did, a line for each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tcprobe import formatting as f
from tcprobe.report.fields import field_of, sentence_of
from tcprobe.report.grid import table_lines
from tcprobe.report.sentences import halves
from tcprobe.rules.base import Says
from tcprobe.schema.statement import Both, Check, Reason, Redaction

NAMES: Final = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}
GPU_BUILDS: Final = {
    "tensorflow": "pip install 'tensorflow[and-cuda]'",
    "torch": "install the build for CUDA (https://pytorch.org)",
    "jax": "pip install 'jax[cuda13]'",
}
ADMIN: Final = (
    "if you need them: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d/nvidia.conf of the "
    "host, then reboot; or run as root; in a container --cap-add=SYS_ADMIN"
)


def _gpu(name: str, tensor_cores: str, memory_bytes: int | None, compute_capability: str | None) -> Both:
    figures = [f.size(memory_bytes)] if memory_bytes else []
    figures += [f"compute capability {compute_capability}"] if compute_capability else []
    none = "has no Tensor Cores" + (", as TU116 and TU117 chips have none" if compute_capability == "7.5" else "")
    cores = {"yes": "has Tensor Cores", "no": none}.get(tensor_cores, "whether it has Tensor Cores is unknown")
    remedy = {"yes": "", "no": "train on another GPU, or read a profile of one"}
    whole = f"{', '.join((name, *figures))}: {cores}"
    return Both(whole, remedy.get(tensor_cores, "a newer driver tells its compute capability"))


def _built(version: str | None, cuda: str | None) -> str:
    return f"{version or 'unknown version'}, {f'for CUDA {cuda}' if cuda else 'built without CUDA'}"


def _blind(framework: str, here: bool, hidden: str | None, version: str | None, cuda: str | None) -> Both:
    if cuda is None:
        remedy = GPU_BUILDS[framework]
    elif not here:
        remedy = "mend the GPU's line first"
    elif hidden is not None:
        remedy = f"CUDA_VISIBLE_DEVICES={hidden!r} may hide them: unset it"
    else:
        remedy = f"python -c 'import {framework}' and a look for a GPU say what library is missing"
    return Both(f"{_built(version, cuda)}; sees no GPU", remedy)


def _absent(framework: str) -> Both:
    if framework != "tensorflow":
        return Both("not installed", "")
    return Both(
        "not installed",
        "pip install 'tcprobe[gpu]', or --python names an interpreter that has it; --profiler nsys records others",
    )


def _tool(version: str | None, path: str | None) -> str:
    return f"{version or 'unknown version'}, {path}"


SAYS: Final[Says] = {
    "smi_missing": Both(
        "no nvidia-smi on PATH, so no driver of NVIDIA's is seen",
        "install the driver; in a container, start it with GPUs (docker run --gpus all, apptainer exec --nv); without "
        "a GPU, read profiles of others: tcprobe report",
    ),
    "smi_silent": Both("nvidia-smi gives no answer", "a GPU may hang: sudo dmesg | grep -i xid says which; reboot"),
    "smi_failed": lambda text: Both(f"nvidia-smi failed: {text}", "see what nvidia-smi prints by hand"),
    "driver_mismatch": lambda text: Both(
        f"nvidia-smi: {text}",
        "the driver was updated and its old module is still in the kernel: reboot; a container that is older: "
        "start it anew",
    ),
    "driver_absent": lambda text: Both(
        f"nvidia-smi: {text}",
        "load the module: sudo modprobe nvidia; where that fails, install the driver for this kernel (uname -r)",
    ),
    "no_devices": lambda text: Both(
        f"nvidia-smi: {text}",
        "lspci | grep -i nvidia says whether one is there; in a container, start it with GPUs (docker run --gpus all)",
    ),
    "gpu": _gpu,
    "mig": lambda instances: Both(
        f"divided by MIG into {', '.join(instances)}: a run uses one, and its peaks are that part's",
        "nvidia-smi -L lists them; --device MIG-UUID takes one",
    ),
    "mig_empty": lambda: Both(
        "MIG is on, and there is no instance", "sudo nvidia-smi mig -cgi 0 -C makes one; sudo nvidia-smi -mig 0 ends it"
    ),
    "driver": lambda version, cuda: f"{version}" + (f", runs CUDA to {cuda}" if cuda else ""),
    "counters_free": "all may read the GPU's counters",
    "counters_root": "this process may read the GPU's counters",
    "counters_admin": Both(
        "only the administrator may read the GPU's counters: ncu and --gpu-metrics of nsys refuse (ERR_NVGPUCTRPERM), "
        "other profilers may (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)",
        ADMIN,
    ),
    "python": lambda version: version,
    "python_old": lambda version: Both(
        f"{version} is too old for the probe and was not asked for frameworks",
        "--python names one from 3.8 on; --profiler nsys records any",
    ),
    "framework": lambda gpus, version, cuda: f"{_built(version, cuda)}; sees {f.many(gpus, 'GPU')}",
    "framework_absent": _absent,
    "framework_broken": lambda framework, text: Both(
        f"cannot be imported: {text}", f"python -c 'import {framework}' says more"
    ),
    "framework_silent": Both(
        "gave no answer in 120 s", "import it by hand; a GPU that hangs: sudo dmesg | grep -i xid"
    ),
    "framework_blind": _blind,
    "framework_too_new": lambda least, driver, version, cuda: Both(
        f"{_built(version, cuda)}; sees no GPU, and driver {driver} is older than that CUDA",
        f"install a driver from {least} on, or a build for an older CUDA",
    ),
    "cupti": "found",
    "cupti_absent": lambda cuda: Both(
        f"libcupti of CUDA {cuda} was not found: TensorFlow's profiler may record no kernel",
        "pip install nvidia-cuda-cupti-cu12 (or your CUDA's), or put extras/CUPTI/lib64 of CUDA on LD_LIBRARY_PATH",
    ),
    "nvtx": lambda version: version or "not installed, nor needed: tcprobe marks ranges by itself",
    "nvtx_mute": lambda version: Both(
        f"{version}, whose ranges this nsys does not hear; those that tcprobe marks it does",
        "for ranges of your own a later nsys, or an older package: 2022.4 hears nvtx 0.2.11",
    ),
    "nvtx_disabled": lambda variable: Both(f"{variable} is set: nsys sees no steps and layers", f"unset {variable}"),
    "nvtx_heard": lambda by: f"nsys hears them, tried through {'ctypes' if by == 'ctypes' else f'package nvtx {by}'}",
    "nvtx_unheard": lambda text: Both(
        f"nsys hears none: {text or 'it printed nothing'}",
        "see what nsys profile --trace=nvtx prints by hand; --nsys-args=--capture-range=none records without them",
    ),
    "no_importer": Both("made no report of a trial: its importer (host part) is missing", "install all of it"),
    "nsys_endless": Both(
        "a trial of a moment did not end within 60 s", "run nsys profile --trace=nvtx sleep 1 by hand"
    ),
    "tool": _tool,
    "tool_absent": lambda remedy: Both("not on PATH", remedy),
    "tool_failed": lambda text, remedy: Both(text, remedy or "see what it prints by hand"),
    "dlprof_alone": Both("records through nsys, which is not on PATH", "put nsys on PATH"),
    "dlprof_before_gpu": lambda gpu: Both(
        f"its last version is of 2021, before {gpu}, whose kernels it does not know", "--profiler tensorflow, or nsys"
    ),
    "dlprof_before_framework": lambda framework, version, last: Both(
        f"its last version knows {NAMES[framework]} to {last}, not {version}", "--profiler tensorflow, or nsys"
    ),
    "trial": lambda kernels, seconds: f"recorded {f.many(kernels, 'kernel')} of a trial in {seconds:.1f} s",
    "trial_empty": lambda text, remedy: Both(
        f"recorded no kernel of a trial: {text or 'it printed nothing'}", remedy or "see what it prints by hand"
    ),
    "trial_endless": lambda seconds: Both(f"a trial of a moment did not end within {seconds:.0f} s", "run it by hand"),
    "trial_without_gpu": Both("no profiler was tried: there is no GPU to record", "mend the GPU's line first"),
    "trial_not_launched": lambda text: Both(
        f"no profiler was tried: without one no kernel could be launched either: {text or 'it printed nothing'}",
        "see whether any program uses the GPU here: its driver, CUDA_VISIBLE_DEVICES, who else holds it",
    ),
    "cpu": lambda name, amx: (
        (f"{name}: " if name else "")
        + ("AMX multiplies bfloat16" if amx else "no AMX, without which bfloat16 is slow on a CPU")
    ),
    "container": lambda container: f"this is a container ({container})",
    "disk": lambda free_bytes: f"{f.size(free_bytes)} free in this folder",
    "disk_low": lambda free_bytes: Both(
        f"{f.size(free_bytes)} free in this folder", "recordings can take some GB: make room"
    ),
    "disk_full": lambda free_bytes: Both(
        f"{f.size(free_bytes)} free in this folder", "make room, or go to another folder"
    ),
}


def data_of_checks(profiler: str, checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the checks for programs: what, how it stands, both sentences and the values in them."""
    rows = []
    for check in checks:
        text, remedy = halves(SAYS, check.fact.kind, dict(check.fact.fields))
        state = {"check": check.about, "state": check.state(profiler), "kind": check.fact.kind}
        rows.append({**state, "text": text, "remedy": remedy or None, "values": dict(check.fact.fields)})
    return rows


def lines_of_checks(profiler: str, title: str, checks: Sequence[Check], width: int | None) -> list[str]:
    """Return the table for people, and what it comes to for the profiler that would record."""
    rows = data_of_checks(profiler, checks)
    fields = (
        field_of("state", "state"),
        field_of("check", "check"),
        sentence_of("what is here", "text"),
        sentence_of("what to do", "remedy"),
    )
    problems = sum(row["state"] == "problem" for row in rows)
    stopped = f"{f.many(problems, 'problem')}: {title} can record no use of a GPU here"
    return [*table_lines(fields, rows, width), "", stopped if problems else f"nothing here stops {title}"]


WHY: Final[Mapping[Reason, str]] = {
    "environment": "holds the environment, and cannot be cleaned; --delete deletes it, as its export is beside it",
    "only_recording": "holds the environment, and cannot be cleaned; no export was cleaned beside it: nsys "
    "export --type=sqlite makes one, and --delete of their folder deletes it",
    "being_written": "not cleaned: another program writes it",
    "refused": "not cleaned: {}",
}


def lines_of(done: Redaction) -> Iterator[str]:
    """Yield a line for each file, and one that says whether anything is left."""
    for one in done.cleaned:
        what = f.many(one.variables, "variable") + (
            f" and {f.many(one.printed, 'text')} that it printed" if one.printed else ""
        )
        stays = f"; {f.many(one.arguments, 'argument')} of command lines left" if one.arguments else ""
        yield f"{one.path}: {what} blanked{stays}"
    for path in done.deleted:
        yield f"{path}: deleted"
    for left in done.left:
        yield f"{left.path}: {WHY[left.reason].format(left.text.removeprefix(f'{left.path}: '))}"
    yield (
        f"{f.many(len(done.left), 'file')} left with private data"
        if done.left
        else "no environment is left in these files"
    )
