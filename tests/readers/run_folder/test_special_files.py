"""Run folders whose files are none: each costs its tables, is said, and is never waited on; no link leads out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, WrongFormat
from tcprobe.readers.one_run import several_runs
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.readers.run_folder.test_folder import make_run
from tests.support import ROOT

XSPACE = ROOT / "tests/fixtures/xplane/two_gpus.xplane.pb"
PROBED = {
    "probe/probe.json": "damaged-probe",
    "probe/graph.json": "damaged-graph",
    "probe/steps.csv": "damaged-steps",
    "probe/metrics.csv": "damaged-metrics",
}


def said(profile: Profile, code: str) -> str:
    return "; ".join(note.message for note in profile.metadata.notes if note.code == code)


def instead(folder: Path, name: str, kind: str) -> None:
    """Put something else in the place of a file."""
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "too large":
        path.touch()
        os.truncate(path, 100 << 30)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["a FIFO", "a folder", "too large", "a link that leads out"])
@pytest.mark.parametrize("name", PROBED)
def test_what_the_probe_did_not_write(tmp_path: Path, name: str, kind: str) -> None:
    run = make_run(tmp_path / "run")
    instead(run, name, kind)
    found = said(open_profile(run), PROBED[name])
    assert found.startswith(f"{name}: ")
    assert kind in found


@pytest.mark.parametrize("kind", ["a FIFO", "too large", "a link that leads out"])
def test_a_record_that_is_none(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "run")
    instead(run, "run.json", kind)
    if kind == "too large":
        assert "damaged-run" in {note.code for note in open_profile(run).metadata.notes}
        return
    with pytest.raises(EmptyInput, match=f"not read: run.json: {kind}"):
        open_profile(run)


@pytest.mark.parametrize("kind", ["a FIFO", "a link that leads out"])
def test_a_raw_file_that_is_none_costs_itself(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "run")
    instead(run, "raw/x.xplane.pb", kind)
    profile = open_profile(run)
    assert f"raw: not read: x.xplane.pb: {kind}" in said(profile, "left-out")
    assert len(profile.require("steps")) == 3
    (run / "raw/good.xplane.pb").write_bytes(XSPACE.read_bytes())
    profile = open_profile(run)
    assert profile.metadata.format == "xplane"
    assert kind in said(profile, "left-out")


def test_raw_files_elsewhere_are_not_read_but_with_the_whole_run(tmp_path: Path) -> None:
    """A link `raw` out of the run folder is not followed; one to the whole run folder is, and one within it."""
    run = make_run(tmp_path / "run")
    (run / "raw/x.xplane.pb").write_bytes(XSPACE.read_bytes())
    (tmp_path / "link").symlink_to("run")
    assert open_profile(tmp_path / "link").metadata.format == "xplane"
    (run / "raw").rename(run / "kept")
    (run / "raw").symlink_to("kept")
    assert open_profile(run).metadata.format == "xplane"
    (run / "kept").rename(tmp_path / "scratch")
    (run / "raw").unlink()
    (run / "raw").symlink_to("../scratch")
    profile = open_profile(run)
    assert profile.metadata.format == "run_folder"
    assert "leads out of the run folder" in said(profile, "unreadable-profile")
    assert str(tmp_path / "scratch") in said(profile, "unreadable-profile")
    assert "it was not followed" in profile.absent["launches"]


def test_the_whole_disk_as_raw_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "raw").rmdir()
    (run / "raw").symlink_to("/")
    assert "to /: it was not followed" in said(open_profile(run), "unreadable-profile")


def test_a_profile_that_is_a_link_is_read_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.xplane.pb").symlink_to(XSPACE)
    assert open_profile(tmp_path / "in" / "x.xplane.pb").metadata.format == "xplane"
    with pytest.raises(EmptyInput, match=r"not read: x\.xplane\.pb: a link that leads out of the folder"):
        open_profile(tmp_path / "in")


@pytest.mark.parametrize("name", ["x.xplane.pb", "dlprof_kernel.csv", "a.json", "run.json", "other"])
def test_a_path_that_is_no_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(WrongFormat, match="is a FIFO"):
        open_profile(tmp_path / name)


def test_an_xspace_of_100_gb(tmp_path: Path) -> None:
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(XSPACE.read_bytes())
    os.truncate(path, 100 << 30)
    with pytest.raises(WrongFormat, match="is too large: 100 GiB; at most 4 GiB are read"):
        open_profile(path)


def test_a_dlprof_report_of_100_gb(tmp_path: Path) -> None:
    sample = ROOT / "tests/fixtures/dlprof/tf2_1.8"
    for name in ("dlprof_iteration.csv", "dlprof_iteration.json"):
        path = tmp_path / name
        path.write_bytes((sample / name).read_bytes() + b"\n" * 20_000)  # its first bytes are in order
        os.truncate(path, 100 << 30)
        with pytest.raises(WrongFormat, match="is too large: 100 GiB"):
            open_profile(path)


def test_files_that_vanish_while_they_are_listed(tmp_path: Path) -> None:
    """The newest of several runs is told by their times; what is gone has none."""
    error = several_runs(tmp_path, [tmp_path / "a" / "x.xplane.pb", tmp_path / "b" / "x.xplane.pb"])
    assert "2 profiles below this directory" in error.message
