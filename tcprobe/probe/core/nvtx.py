"""Reaches the tool that listens to NVTX: through package `nvtx`, else by playing the NVTX v3 header with ctypes.

The header needs no library of NVIDIA's: it loads the tool's own and hands it tables of slots, which the tool fills
with its functions. Numbers and layouts are those of nvtx3/nvtxDetail/nvtxTypes.h.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
from typing import Any, Callable, Dict, List, NamedTuple, Optional

CTYPES = "ctypes"

CALLBACKS, VERSION_INFO = 1, 3  # export tables
SLOTS = {1: 16, 2: 9, 3: 15, 4: 7, 5: 16, 6: 7}  # by module: core, CUDA, OpenCL, CUDA runtime, core2, sync
CORE2 = 5
START, STOP, PUSH, POP, REGISTER, CREATE, INITIALIZE = 2, 3, 4, 5, 10, 12, 15  # slots of core2
NVTX_VERSION = 3
ASCII, REGISTERED = 1, 3  # kinds of a message

POINTER = ctypes.c_void_p
SIZE = ctypes.sizeof(POINTER)
GetExportTable = ctypes.CFUNCTYPE(POINTER, ctypes.c_uint32)
GetModuleTable = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(POINTER), ctypes.POINTER(ctypes.c_uint32)
)
SetToolVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
# The interpreter's lock is kept: a range takes less time than the lock's way to another thread and back.
Push = ctypes.PYFUNCTYPE(ctypes.c_int, POINTER, POINTER)
Pop = ctypes.PYFUNCTYPE(ctypes.c_int, POINTER)
Start = ctypes.PYFUNCTYPE(ctypes.c_uint64, POINTER, POINTER)
Stop = ctypes.PYFUNCTYPE(None, POINTER, ctypes.c_uint64)
Register = ctypes.PYFUNCTYPE(POINTER, POINTER, ctypes.c_char_p)
Create = ctypes.PYFUNCTYPE(POINTER, ctypes.c_char_p)
Initialize = ctypes.PYFUNCTYPE(None, POINTER)


class Domain(NamedTuple):
    """A domain that a tool listens to.

    Attributes:
        by: version of package nvtx, or "ctypes".
        event: makes what `push` takes, given a name; the tool remembers every name.
        push: begins a range in the calling thread.
        pop: ends the range that the thread has begun last.
        start: begins a range of all threads, and returns what `stop` takes; None where the tool has no such ranges.
        stop: ends it.
    """

    by: str
    event: Callable[[str], Any]
    push: Callable[[Any], Any]
    pop: Callable[[], Any]
    start: Optional[Callable[[Any], Any]]
    stop: Optional[Callable[[Any], Any]]


def find_domain(name: str, path: str) -> Optional[Domain]:
    """Return domain `name` of the tool whose library lies at `path`; None where it does not listen.

    Raises:
        OSError: the library cannot be loaded.
        AttributeError: it is none for NVTX.
        RuntimeError: it offers no ranges.
    """
    return _by_package(name) or by_header(name, path)


def _by_package(name: str) -> Optional[Domain]:
    """Return a domain of package nvtx; None where that cannot be used, or reaches no tool."""
    try:
        domain = importlib.import_module("nvtx").get_domain(name)
        version = importlib.metadata.version("nvtx")
    except Exception:  # not installed, too old for domains, or broken: its part is played
        return None
    if type(domain).__name__ == "DummyDomain":
        return None
    return Domain(
        version,
        lambda text: domain.get_event_attributes(message=text),
        domain.push_range,
        domain.pop_range,
        getattr(domain, "start_range", None),
        getattr(domain, "end_range", None),
    )


def by_header(name: str, path: str) -> Optional[Domain]:
    """Return domain `name` as `find_domain` does, without importing any package."""
    slots = Header().attach(path)
    if slots is None:
        return None
    if not (slots[PUSH] and slots[POP]):
        raise RuntimeError("%s offers no ranges" % path)
    if slots[INITIALIZE]:
        Initialize(slots[INITIALIZE])(None)
    domain = Create(slots[CREATE])(name.encode()) if slots[CREATE] else None
    register = Register(slots[REGISTER]) if slots[REGISTER] else None
    event = functools.partial(_event, domain, register)
    push, pop = functools.partial(Push(slots[PUSH]), domain), functools.partial(Pop(slots[POP]), domain)
    start = functools.partial(Start(slots[START]), domain) if slots[START] and slots[STOP] else None
    stop = functools.partial(Stop(slots[STOP]), domain) if start else None
    return Domain(CTYPES, event, push, pop, start, stop)


class Attributes(ctypes.Structure):
    """nvtxEventAttributes_t."""

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("message", POINTER),
    )


def _event(domain: Any, register: Optional[Callable[..., Any]], name: str) -> Any:
    """Return a reference to the attributes of a range, which live as long as it."""
    text = ctypes.create_string_buffer(name.encode("utf-8", "replace"))
    # Only a registered name can begin or end what a tool captures.
    handle = None if register is None else register(domain, text.value)
    event: Any = Attributes(NVTX_VERSION, ctypes.sizeof(Attributes))
    event.message_type, event.message = (REGISTERED, handle) if handle else (ASCII, ctypes.addressof(text))
    event.text = text  # keeps it alive
    return ctypes.byref(event)


_attached: List["Header"] = []
"""Headers whose addresses a tool holds: they live to the end of the process."""


class Header:
    """The tables that the NVTX header hands to a tool, and the slots that the tool fills."""

    def __init__(self) -> None:
        self._slots: Dict[int, Any] = {module: (POINTER * count)() for module, count in SLOTS.items()}
        self._tables = {module: _table(slots) for module, slots in self._slots.items()}
        self._get_module, self._set_version = GetModuleTable(self._module), SetToolVersion(lambda _: None)
        self._get_table = GetExportTable(self._export)
        # Each begins with its own size: {size_t; int (*)(module, table*, size*)}, {size_t; uint32_t[2]; void (*)(int)}
        self._exports = {
            CALLBACKS: _words(2 * SIZE, _address(self._get_module)),
            VERSION_INFO: _words(3 * SIZE, NVTX_VERSION, _address(self._set_version)),
        }

    def attach(self, path: str) -> Optional[Any]:
        """Load a tool; return its functions by slot of core2, None where it does not listen.

        Raises:
            OSError: the library cannot be loaded.
            AttributeError: it has no entry for NVTX.
        """
        entry = ctypes.CDLL(path).InitializeInjectionNvtx2
        entry.restype, entry.argtypes = ctypes.c_int, [GetExportTable]
        _attached.append(self)
        return self._slots[CORE2] if entry(self._get_table) else None

    def _export(self, table: int) -> Optional[int]:
        return ctypes.addressof(self._exports[table]) if table in self._exports else None

    def _module(self, module: int, table: Any, size: Any) -> int:
        if module not in self._tables:
            return 0
        table[0] = ctypes.addressof(self._tables[module])
        if size:
            size[0] = SLOTS[module]
        return 1


def _table(slots: Any) -> Any:
    """Return the addresses of slots; slot 0 has none, and a null ends the table."""
    first = ctypes.addressof(slots)
    return (POINTER * (len(slots) + 1))(None, *[first + SIZE * place for place in range(1, len(slots))])


def _words(*words: Any) -> Any:
    return (ctypes.c_size_t * len(words))(*words)


def _address(function: Any) -> Optional[int]:
    return ctypes.cast(function, POINTER).value
