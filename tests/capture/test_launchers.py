"""What stands before a workload: jobs of ranks, and containers that do not see what they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.capture.base import CaptureRequest, Invocation
from tcprobe.capture.launchers import behind, mount_of, once, starts_ranks
from tcprobe.errors import ToolError


@pytest.mark.parametrize(
    ("launcher", "ranks"),
    [
        ("mpirun -np 2", True),
        ("/usr/bin/mpirun.openmpi -np 2", True),
        ("srun -n 4 singularity exec --nv image", True),
        ("mpiexec.hydra -n 8", True),
        ("docker run --gpus 1 image", False),
        ("singularity exec --nv mpirun_image.simg", False),
        ("nice -n 5", False),
        ("", False),
    ],
)
def test_which_launchers_start_ranks(launcher: str, ranks: bool) -> None:
    assert starts_ranks(launcher.split()) is ranks


@pytest.mark.parametrize(
    ("launcher", "hint"),
    [
        ("docker run --gpus 1 image", "add -v {0}:{0} to --launcher"),
        ("/opt/bin/singularity exec --nv image", "add -B {0} to --launcher"),
        ("srun -n 4 apptainer exec image", "add -B {0} to --launcher"),
        ("srun -n 4 --container-image=image", "add --container-mounts={0}:{0} to --launcher"),
        ("bwrap --ro-bind / /", "add --bind {0} {0} to --launcher"),
        ("ssh node", "have {0} there under the same path"),
    ],
)
def test_the_mount_that_is_needed(launcher: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = launcher.replace("srun -n 4 a", "a").split()
    assert mount_of(words, tmp_path / "runs" / "r") == hint.format(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    assert mount_of(words, tmp_path / "runs" / "r") == hint.format(tmp_path), "the working directory has the script too"


def request_of(tmp_path: Path, *launcher: str) -> CaptureRequest:
    home, script = tmp_path / "out" / "run", tmp_path / "mine" / "train.py"
    for folder in (home, script.parent):
        folder.mkdir(parents=True)
    script.write_text("import helper")
    (script.parent / "helper.py").write_text("")
    return CaptureRequest(Invocation("script", str(script)), home, sys.executable, launcher=launcher)


def test_a_script_that_a_container_does_not_see_is_copied(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("no bwrap (bubblewrap) here to make a container with")
    box = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(tmp_path))
    if subprocess.run([*box, "true"], capture_output=True).returncode:
        pytest.skip("bwrap may not make a container here")
    request = request_of(tmp_path, *box)
    with pytest.raises(ToolError, match=f"{tmp_path}/out is not there behind it") as refused:
        behind(request)
    assert refused.value.hint == f"add --bind {tmp_path}/out {tmp_path}/out to --launcher"
    again = CaptureRequest(
        request.target,
        request.folder,
        sys.executable,
        launcher=(*box, "--bind", f"{tmp_path}/out", f"{tmp_path}/out"),
    )
    found, said = behind(again)
    assert Path(found.target.name) == request.folder / "workload" / "train.py"
    assert (request.folder / "workload" / "helper.py").is_file()
    assert said.startswith("copied train.py and 1 module beside it into the run folder")


def test_what_is_seen_stays_where_it_is(tmp_path: Path) -> None:
    request = request_of(tmp_path, "env", "X=1")
    assert behind(request) == (request, "")


def test_one_rank_alone_runs_what_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [*once(("env", "SLURM_PROCID=3"), "nothing-of-this-name"), "echo", "hi"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    command[1] = "SLURM_PROCID=0"
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "hi\n"
    command[1:2] = ["SLURM_PROCID=0", "TORCHELASTIC_RUN_ID=none", "RANK=1"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    assert once(("mpirun",), "sh") == ()
