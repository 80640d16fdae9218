"""`tcprobe workloads`: list the workloads that can be profiled by name."""

from __future__ import annotations

from tcprobe.cli import options as o
from tcprobe.visible import put


def workloads() -> None:
    """List the workloads that come with tcprobe; `tcprobe profile NAME` runs one."""
    from tcprobe.flows.workloads import packaged_workloads

    found = packaged_workloads()
    if o.chosen["json"]:
        o.put_json(workloads=[{"name": w.name, "description": w.description, "path": str(w.path)} for w in found])
        return
    widest = max((len(w.name) for w in found), default=0)
    put(*(f"{workload.name.ljust(widest)}  {workload.description}" for workload in found))
