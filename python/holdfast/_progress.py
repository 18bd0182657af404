# SPDX-License-Identifier: Apache-2.0
"""What the caller is told while C works, and how it stops that."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from . import _abi

# A call of so many multiplications (rows x clusters x columns x iterations) may take so long that
# somebody wants to interrupt it; smaller ones are not worth a callback in each iteration.
LONG_WORK = 3e10
GPU_TIMES = 1000


class Interrupts:
    """Keeps Ctrl-C until somebody can act on it: ``with Interrupts(wanted) as interrupts``.

    While C runs, Python would run the handler of the signal at the entry of a callback, where no
    code can catch what it raises. So a handler of our own takes a note, and :func:`deliver` calls
    the program's handler, within a callback or after the call.
    """

    __slots__ = ("frame", "noted", "old", "wanted")
    current: Interrupts | None = None

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted and threading.current_thread() is threading.main_thread()
        self.noted = False
        self.old: Any = None

    def __enter__(self) -> Interrupts:
        if self.wanted and Interrupts.current is None:
            import signal

            old = signal.getsignal(signal.SIGINT)
            if callable(old):
                self.old = old
                Interrupts.current = self
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, _: int, frame: Any) -> None:
        self.noted, self.frame = True, frame

    def __exit__(self, *_: object) -> None:
        if self.old is not None:
            import signal

            Interrupts.current = None
            signal.signal(signal.SIGINT, self.old)

    def deliver(self) -> None:
        """Call the program's handler if there was a signal; that may raise KeyboardInterrupt."""
        if self.noted:
            self.noted = False
            self.old(2, self.frame)


def deliver() -> None:
    """Act on a signal within a callback."""
    if Interrupts.current is not None:
        Interrupts.current.deliver()


class Event(NamedTuple):
    """What a progress function is called with.

    Attributes
    ----------
    restart : int
        From 0.
    iteration : int
        From 1; 0 while the first centroids are chosen.
    inertia, shift : float
        Of the iteration: of its labels against the centroids they were computed from, and the sum
        of the squared distances that the centroids moved.
    changed : int
        Rows whose label changed.
    empty : int
        Clusters that were empty.
    seconds : float
        That the iteration took.
    done, total : int
        Iterations so far and at most, or first centroids chosen so far and in all.
    """

    restart: int
    iteration: int
    inertia: float
    shift: float
    changed: int
    empty: int
    seconds: float
    done: int
    total: int


class Watch:
    """The progress function of one call of `fit`, in C's form.

    `failure` gets the first exception, KeyboardInterrupt among them; the call then ends after the
    iteration. `work` is the number of multiplications that the fit may take.
    """

    def __init__(self, told: Any, verbose: bool, max_iter: int, work: float) -> None:
        self.failure: list[BaseException] = []
        self.interrupts = Interrupts(False)
        self.bar: Any = None
        self.own_bar = False
        if told is not None and hasattr(told, "update"):
            self.own_bar = isinstance(told, type)
            self.bar = told(total=max_iter, unit="iteration") if self.own_bar else told
            told = None
        self.told, self.verbose, self.max_iter, self.work = told, verbose, max_iter, work

    def wanted(self, on_gpu: bool) -> bool:
        """Is somebody to be told, or may somebody want to interrupt?"""
        if self.told is not None or self.verbose or self.bar is not None:
            return True
        if self.work < (GPU_TIMES * LONG_WORK if on_gpu else LONG_WORK):
            return False
        return threading.current_thread() is threading.main_thread()

    def function(self) -> Any:
        """For hf_kmeans_opts.progress. It refers to this object, not the other way round."""

        def progress(_: Any, restart: int, number: int, it: Any, done: int, total: int) -> int:
            try:
                deliver()
                return int(bool(self.tell(restart, number, it[0] if it else None, done, total)))
            except BaseException as error:  # raised again where C returns
                self.failure.append(error)
                return 1

        return _abi.Progress(progress)

    def tell(self, restart: int, number: int, it: Any, done: int, total: int) -> Any:
        """One iteration, or a part of a start."""
        if it is None:
            if self.verbose and done == total:
                print("Initialization complete")
        elif self.verbose:
            print(f"Iteration {number - 1}, inertia {it.inertia}.")
        if self.bar is not None and it is not None:
            self.bar.update(1)
        if self.told is None:
            return False
        if it is None:
            return self.told(Event(restart, 0, 0.0, 0.0, 0, 0, 0.0, done, total))
        return self.told(
            Event(
                restart,
                number,
                it.inertia,
                it.shift,
                it.changed,
                it.empty,
                it.seconds,
                number,
                self.max_iter,
            )
        )

    def close(self) -> None:
        """End a bar that was made here."""
        if self.bar is not None and self.own_bar:
            self.bar.close()


def print_end(report: dict[str, Any], tol: float) -> None:
    """scikit-learn's last line of a verbose fit."""
    last = report["iterations"] - 1
    if report["stop"] == "labels":
        print(f"Converged at iteration {last}: strict convergence.")
    elif report["stop"] == "tol":
        shift = report["history"]["shift"][last]
        print(
            f"Converged at iteration {last}: center shift {shift} within tolerance {tol} of the "
            "mean variance."
        )
