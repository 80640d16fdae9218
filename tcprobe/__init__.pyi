from types import TracebackType

from tcprobe.api import Comparison as Comparison
from tcprobe.api import Finding as Finding
from tcprobe.api import KerasCallback as KerasCallback
from tcprobe.api import NoTable as NoTable
from tcprobe.api import Profile as Profile
from tcprobe.api import TcprobeError as TcprobeError
from tcprobe.api import audit_shapes as audit_shapes
from tcprobe.api import compare as compare
from tcprobe.api import profile as profile
from tcprobe.api import read as read

__all__: list[str]
__version__: str

class step:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
