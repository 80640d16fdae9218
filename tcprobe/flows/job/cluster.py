"""Read the ranks of a job on a Dask cluster: each file where it lies, the parts joined there as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.analysis.ranks.part import tree
from tcprobe.errors import ToolError, UsageError
from tcprobe.flows.job.parts import Reduced, Task, chunks_of, head_of, join_reduced, reduce_file, reduce_files
from tcprobe.readers.job import RankFile

CHUNK: Final = 8  # files of a task; a power of two, as the tree is
ANSWER_SECONDS: Final = 20
RETRIES: Final = 2  # of a task whose worker fails; Dask itself runs those of a worker that dies again


def reduce_on_cluster(address: str, files: Sequence[RankFile], task: Task) -> Reduced:
    """Return what is left of the files of a job, read by the workers of a scheduler.

    Args:
        address: of the scheduler (``tcp://host:8786``).
        files: which the workers find under the same absolute path.
        task: how each is read.

    Raises:
        UsageError: Dask is not installed, or no scheduler answers there.
        ToolError: the workers cannot run tcprobe, or all that tried a task died.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise UsageError("--scheduler needs Dask, which is not installed", "pip install 'tcprobe[dask]'") from error
    try:
        client = distributed.Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = "as in --scheduler tcp://host:8786; `dask scheduler` prints its address"
        raise UsageError(f"--scheduler {address}: no scheduler of Dask answers there", hint) from error
    with client:
        try:
            return _reduced(client, [replace(file, path=Path(file.path).absolute()) for file in files], task)
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise ToolError(
                f"--scheduler {address}: the workers do not read the ranks: {said}",
                "each worker needs this version of tcprobe, and the folder under the same path",
            ) from error


def _reduced(client: Any, files: Sequence[RankFile], task: Task) -> Reduced:
    submit = partial(client.submit, pure=False, retries=RETRIES)
    head, reference = head_of(files, lambda file: submit(reduce_file, file, task, None).result())
    whole = client.scatter(Task(task.options, task.analyse, reference), broadcast=True)
    chunks = (submit(reduce_files, before, those, whole) for before, those in chunks_of(files, head, CHUNK))
    found: Reduced = tree(chunks, partial(submit, join_reduced)).result()
    return found
