"""Inputs made by hand, too large to keep as files: what patterns, recursions and lists choked on."""

from __future__ import annotations

import json
from typing import Final

from tests.fuzz.inputs import Input
from tests.fuzz.names import PLAIN
from tests.fuzz.targets import BASELINE, DLPROF, MODEL, TARGETS

KERNELS: Final = (DLPROF / "tf2_1.8/dlprof_kernel.csv").read_bytes()
NOTES: Final = json.dumps(
    [{"code": f"c{n}", "message": f"m{n}", "remedy": None, "level": "error"} for n in range(9999)]
).encode()


def _named(**lists: str) -> Input:
    return Input({"x.names": json.dumps({**PLAIN, **{key: [text] for key, text in lists.items()}}).encode()})


def _run(name: str, old: bytes, new: bytes) -> Input:
    """Return a run folder with other bytes in a file."""
    whole = TARGETS["run-folder"].seeds()[0]
    assert old in whole.files[name]
    return whole.changed(name, whole.files[name].replace(old, new, 1))


def made() -> dict[str, Input]:
    """Return the inputs, by target and name."""
    return {
        "names/long-kernel-details": _named(details="regs:1 " * 12_000),
        "names/long-details-of-digits": _named(details="grid:" + "1" * 80_000),
        "names/gpu-of-parentheses": _named(gpus="A100 " + "(" * 300_000),
        "names/nested-jvp": _named(ops="jvp(" * 20_000 + ":MatMul"),
        "names/long-op-path": _named(ops="while/body/" * 11_000 + "MatMul:MatMul"),
        "names/path-of-slashes": _named(ops="conv2d" + "/" * 100_000 + "x:Conv2D"),
        "names/nested-kernel": _named(kernels="a<" * 50_000 + ">" * 50_000),
        "names/kernel-of-parentheses": _named(kernels="void k" + "(" * 100_000),
        "names/long-shape": _named(shapes="(" + "half[1];" * 30_000 + ")"),
        "names/long-names": _named(
            gpus="G" * 2_000_000,
            kernels="k" * 2_000_000,
            ops="model/" + "l" * 2_000_000 + "/MatMul:" + "t" * 2_000_000,
        ),
        "names/commands-of-ci": _named(gpus="##[error]x", kernels="::error::x", ops="::add-mask::x/MatMul:MatMul"),
        "dlprof-csv/command-of-ci": Input({"dlprof_kernel.csv": KERNELS.replace(b"generator/dense", b"::error::")}),
        "dlprof-csv/long-op-name": Input(
            {"dlprof_kernel.csv": KERNELS.replace(b"generator/dense/MatMul", b"m" * 2_000_000)}
        ),
        "dlprof-csv/long-header": Input({"dlprof_kernel.csv": b"Kernel Name," + b"a," * 600_000 + b"\n1,2\n"}),
        "dlprof-csv/many-quotes": Input({"dlprof_kernel.csv": b"Kernel Name,Op Name\n" + b'"' * 300_001}),
        "run-folder/escape-in-precision": _run("run.json", b'"mixed_float16"', b'"\\u001b[2Jfp16"'),
        "run-folder/many-notes": _run("run.json", b'"notes": []', b'"notes": %s' % NOTES),
        "run-folder/many-logged-figures": _run(
            "probe/metrics.csv",
            b"step,",
            b"step,name,value,unit\n%s0," % b"".join(b"0,n%d,1,\n" % n for n in range(9999)),
        ),
        "run-folder/long-workload": _run("run.json", b'"train_gan"', b'"%s"' % (b"::error::" + b"w" * 2_000_000)),
        "run-folder/digits-of-shape": _run("probe/graph.json", b"[8, 28, 28, 1]", b"[8, %s, 28, 1]" % (b"9" * 5000)),
        "run-folder/deep-record": _run("run.json", b'"notes": []', b'"notes": ' + b"[" * 10_000 + b"]" * 10_000),
        "calibration/deep-constants": Input({"config/tcprobe/calibration/h200-sxm.json": b"[" * 100_000}),
        "settings/deep-baseline": Input({**_settings(), "baseline.json": b"[" * 100_000}),
        **{
            f"settings/baseline-of-{what}-file": Input({**_settings(), "baseline.json": _known(file)})
            for what, file in {"long": "f" * 5000, "null": "a\0b", "lone": "\ud800", "deep": "/" + "a/" * 3000}.items()
        },
        "settings/long-code": Input(
            {**_settings(), "pyproject.toml": b'[tool.tcprobe]\nselect = ["%s"]' % (b"Z" * 500_000)}
        ),
        "settings/digits": Input({**_settings(), "pyproject.toml": b"[tool.tcprobe]\nbatch-size = " + b"9" * 5000}),
        "source/long-name": Input({"model.py": MODEL.replace(b"63,", b"63, name='%s'," % (b"n" * 1_000_000))}),
        "source/commands-of-ci": Input({"::error::##[error]x.py": MODEL.replace(b"63,", b"63, name='##[error]x',")}),
        "source/digits": Input({"model.py": MODEL.replace(b"63", b"9" * 4000)}),
        "source/deep": Input(
            {"model.py": MODEL + b"x = " + b"(" * 150 + b"1" + b")" * 150 + b"\n" + b"-" * 3000 + b"1\n"}
        ),
    }


def _known(file: str) -> bytes:
    """Return a baseline with a finding in a file of this name."""
    return json.dumps({**BASELINE, "findings": [{"file": file, "code": "TC101"}]}).encode()


def _settings() -> dict[str, bytes]:
    return dict(TARGETS["settings"].seeds()[0].files)


MADE: Final = made()
