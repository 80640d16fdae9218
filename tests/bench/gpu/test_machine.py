"""What a machine has is looked up in programs that may be old, absent or silent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from bench.gpu import machine
from bench.gpu.machine import Machine, Tool, look

ALL = (
    "NVIDIA H200, 580.159.04, 96.00.D3.00.01, 9.0, 143771 MiB, 700.00 W, 700.00 W, 1980 MHz, 3201 MHz, [N/A], 345 MHz, "
    "3201 MHz, 27, Enabled, Disabled, Enabled, 5, 16"
)
SMI = f"""\
#!/bin/sh
case "$*" in
  *{{unknown}}*) echo 'Field "{{unknown}}" is not a valid field to query.'; exit 2 ;;
  *vbios*) echo '{ALL}' ;;
  *) echo 'NVIDIA H200, 580.159.04, 143771 MiB, 700.00 W, 1980 MHz' ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the only folder in which programs are found."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(machine, "PLACES", ())
    monkeypatch.setattr(machine, "SYSTEMS", ())
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("unknown", ["none", "ecc.mode.current"])
def test_the_gpu_is_what_the_driver_says(tools: Path, unknown: str) -> None:
    program(tools / "nvidia-smi", SMI.format(unknown=unknown))
    program(
        tools / "ncu",
        "#!/bin/sh\necho 'NVIDIA (R) Nsight Compute Command Line Profiler'; echo 'Version 2025.3.1.0 (build 1)'\n",
    )
    found = look([])
    assert (found.gpu, found.gpus, found.capability) == ("h200-sxm", 1, (9, 0))
    assert found.smi["clocks.max.sm"] == "1980 MHz"
    assert found.ncu == Tool(str(tools / "ncu"), "2025.3.1.0") and found.nsys is None


def test_without_a_gpu_there_is_none(tools: Path) -> None:
    program(tools / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    program(tools / "ncu", "#!/bin/sh\nexit 1\n")
    found = look(["/nowhere/python"])
    assert (found.gpu, found.gpus, found.capability, found.frameworks, found.ncu) == (None, 0, None, (), None)


def test_frameworks_are_those_of_the_first_interpreter_that_has_them(tools: Path) -> None:
    def python(name: str, **found: str) -> str:
        program(tools / name, f"#!/bin/sh\necho '{json.dumps({'python': '3.9.1', 'found': found})}'\n")
        return str(tools / name)

    first = python("first", torch="2.11.0", triton="3.6.0", secret="1")
    second = python("second", **{"torch": "1.0", "tensorflow-cpu": "2.21.0", "jax": "0.11.2", "jaxlib": "0.11.2"})
    found = look([first, second])
    assert [(f.name, f.version, f.python) for f in found.frameworks] == [
        ("jax", "0.11.2", second), ("torch", "2.11.0", first), ("tensorflow", "2.21.0", second)
    ]  # fmt: skip
    torch = found.framework("torch")
    assert torch is not None and torch.libraries == {"triton": "3.6.0"} and found.framework("mxnet") is None


def test_provenance_names_no_place_of_the_machine(tools: Path) -> None:
    program(tools / "nvidia-smi", SMI.format(unknown="none"))
    found = look([sys.executable])
    told = json.dumps(found.provenance())
    assert str(Path.home()) + "/" not in told and str(tools) not in told and sys.executable not in told
    assert os.uname().nodename not in told
    path = tools / "machine.json"
    found.save(path)
    assert Machine.load(path) == found
