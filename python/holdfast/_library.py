# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the C library; hands out contexts."""

from __future__ import annotations

import ctypes as C
import os
import time

from . import _abi, errors
from ._version import __version__

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load() -> C.CDLL:
    """The library of the wheel, or the file that HOLDFAST_LIBRARY names."""
    path = os.environ.get("HOLDFAST_LIBRARY") or os.path.join(_HERE, "libholdfast.so")
    try:
        library = C.CDLL(path)
    except OSError as error:
        raise errors.LibraryError(
            f"the C library cannot be loaded: {error}. Install the package again (pip install "
            "holdfast), or set HOLDFAST_LIBRARY to the path of libholdfast.so"
        ) from None
    try:
        library.hf_version.restype = C.c_char_p
        found = library.hf_version().decode()
        if found != __version__:
            raise errors.LibraryError(
                f"{path} is version {found}, but this package is {__version__}: install the two "
                "from the same release"
            )
        for name, (result, arguments) in _abi.PROTOTYPES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError as error:
        raise errors.LibraryError(
            f"{path} lacks a function that this package calls ({error}): install the two from "
            "the same release"
        ) from None
    return library


lib = _load()
last_error = lib.hf_last_error


# The library speaks in the names of its C interface.
_WORDS = (
    (" (HF_NAN_DROP)", ""),  # an option of C's alone
    ("HF_CENTROIDS_SAME", "centroids='same'"),
    ("HF_EMPTY_RELOCATE", "empty='relocate'"),
    ("HF_GUARD_OFF", "guard='off'"),
    ("HF_HEADER_YES", "header=True"),
    ("HF_HEADER_NO", "header=False"),
    ("HF_SCALE_ROBUST", "scale='robust'"),
    ("HF_SCALE_STANDARD", "scale='standard'"),
    ("memory_bytes", "memory_limit"),
)


def words(text: str) -> str:
    """A message of the library in the names of this package."""
    for name, own in _WORDS:
        text = text.replace(name, own)
    return text


def fail(status: int, context: int | None) -> errors.HoldfastError:
    """The exception for a call that failed on a context."""
    text = last_error(context).decode("utf-8", "replace")
    return errors.of_status(status, words(text) or lib.hf_status_text(status).decode())


# ---- contexts: kept for a while, since a small fit takes no longer than making one


class Context:
    """An open context, what never changes of it, and since when it is idle."""

    __slots__ = ("device", "handle", "since", "threads")

    def __init__(self, handle: int) -> None:
        self.handle, self.since = handle, 0.0
        self.device: str = lib.hf_context_device(handle).decode()
        self.threads: int = lib.hf_context_threads(handle)


_Key = tuple[bytes, int, int, int]
_IDLE_SECONDS = 1.0  # its default memory limit is half of what was free when it was made
_IDLE_MOST = 4  # for each key
_now = time.monotonic
_idle: dict[_Key, list[Context]] = {}

# Streams that end with the process: none and the default ones, and what torch has. A context waits
# for its stream when it is closed, so it may be idle on no other, which may have ended by then.
lasting = {0, 1, 2}


def _forget() -> None:
    """A context does not pass a fork; a GPU that the parent uses is out of the child's reach."""
    global _cpu_alone
    _idle.clear()
    _cpu_alone = _gpu_runs


os.register_at_fork(after_in_child=_forget)

# Rows of the host with device="auto". All devices give the same bits, so that nobody sees which one
# it was, but for the time: starting a GPU takes as long as a CPU needs for _START_WORK products of
# two numbers, and bringing rows to one that runs as long as for _CALL_WORK.
_START_WORK = 5e10
_CALL_WORK = 1e8
_gpu_runs = False
_cpu_alone = False  # there is no GPU
_cpu_work = 0.0  # done so far where a GPU would have had to be started


def choose(work: float) -> bytes:
    """The device for a call of `work` products. Many small calls start the GPU in the end."""
    global _cpu_work
    if _cpu_alone or work < _CALL_WORK:
        return b"cpu"
    if not _gpu_runs:
        _cpu_work += work
        if _cpu_work < _START_WORK:
            return b"cpu"
    return b"auto"


def choose_always(work: float) -> bytes:
    """As choose(), and the same each time, for results whose last bits depend on the device."""
    return b"cpu" if _cpu_alone or work < _START_WORK else b"auto"


def _learn(asked: bytes, device: str) -> None:
    """What a context that was made says of the GPU."""
    global _cpu_alone, _gpu_runs
    _gpu_runs = _gpu_runs or device.startswith("cuda")
    _cpu_alone = _cpu_alone or (asked == b"auto" and device == "cpu")


def context_create(device: bytes, memory: int, stream: int, threads: int = 0) -> int:
    """Open a context; the caller closes it."""
    opts = _abi.ContextOpts(device, threads, memory, stream)
    handle = C.c_void_p()
    status = lib.hf_context_create(C.addressof(handle), C.addressof(opts))
    if status:
        raise fail(status, None)
    assert handle.value is not None
    return handle.value


def _close_expired() -> None:
    """Close contexts that waited too long, whatever they were for: each has threads."""
    for idle in list(_idle.values()):
        try:
            while _now() - idle[0].since >= _IDLE_SECONDS:
                lib.hf_context_destroy(idle.pop(0).handle)
        except IndexError:  # none is left
            pass


class Lease:
    """A context for one call: ``with Lease(device, memory, stream) as context``.

    Within, `held` says more of it.
    """

    __slots__ = ("held", "keep", "key")
    held: Context

    def __init__(self, device: bytes, memory: int, stream: int, threads: int = 0) -> None:
        self.key = (device, memory, stream, threads)
        self.keep = True  # for the next call

    def __enter__(self) -> int:
        idle = _idle.get(self.key)
        while idle:
            try:
                context = idle.pop()
            except IndexError:  # another thread was faster
                break
            if _now() - context.since < _IDLE_SECONDS:
                self.held = context
                return context.handle
            lib.hf_context_destroy(context.handle)
        self.held = Context(context_create(*self.key))
        _learn(self.key[0], self.held.device)
        return self.held.handle

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        held, idle = self.held, _idle.get(self.key)
        if idle is None:
            idle = _idle.setdefault(self.key, [])
        if kind is None and self.keep and self.key[2] in lasting and len(idle) < _IDLE_MOST:
            held.since = _now()
            idle.append(held)
            _close_expired()
        else:
            lib.hf_context_destroy(held.handle)
