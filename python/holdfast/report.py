# SPDX-License-Identifier: Apache-2.0
"""A picture of a fit: python -m holdfast.report RESULT [-o FILE].

RESULT is the folder that ``holdfast kmeans -o RESULT`` or :func:`save` wrote.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

import numpy as np

from .errors import DataError, FileError, UnsupportedError


def save(km: Any, folder: Any) -> None:
    """Write a fitted estimator as the command does: centroids, labels and report.json.

    Parameters
    ----------
    km : KMeans
        A fitted estimator.
    folder : str or path
        Is made if it is not there.
    """
    from ._rows import to_host

    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "centroids.npy"), to_host(km.cluster_centers_))
    np.save(os.path.join(folder, "labels.npy"), to_host(km.labels_))
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump(_of_estimator(km), file, indent=2)


def _of_estimator(km: Any) -> dict[str, Any]:
    """`report_` in the form of the command's report."""
    r = km.report_
    history = r["history"]
    return {
        "data": {"rows": r["rows"], "columns": r["columns"]},
        "options": {"k": r["k"], "metric": km.metric, "device": r["device"]},
        "result": {
            "inertia": r["inertia"],
            "iterations": r["iterations"],
            "stop": r["stop"],
            "converged": r["converged"],
            "sizes": r["sizes"].tolist(),
        },
        "plan": r["kernels"],
        "seconds": r["seconds"],
        "history": [
            dict(zip(history.dtype.names, row), iteration=i + 1)
            for i, row in enumerate(history.tolist())
        ],
    }


def _read(folder: str) -> tuple[dict[str, Any], Any]:
    """Report and centroids of a folder."""
    path = os.path.join(folder, "report.json")
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        centroids = np.load(os.path.join(folder, "centroids.npy"))
    except OSError as error:
        raise FileError(
            f"{error}: give the folder that `holdfast kmeans -o FOLDER` or holdfast.report.save() "
            "wrote"
        ) from None
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}") from None
    if not isinstance(report, dict) or not report.get("history") or "result" not in report:
        raise DataError(f"{path} is no report of a fit: it has no history")
    return report, centroids


def plot(what: Any, path: Any = None) -> Any:
    """Draw a fit: inertia and shift an iteration, work skipped, cluster sizes, centroids.

    Parameters
    ----------
    what : KMeans, str or path
        A fitted estimator, or the folder of a result.
    path : str or path, default=None
        Where to write the picture; the ending says in which format.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The picture.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError("pictures need matplotlib: pip install holdfast[report]") from None
    if hasattr(what, "report_"):
        from ._rows import to_host

        report, centroids = _of_estimator(what), to_host(what.cluster_centers_)
    else:
        report, centroids = _read(os.fspath(what))
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    history = report["history"]
    number = np.arange(1, len(history) + 1)
    _curves(axes[0, 0], number, history)
    _work(axes[0, 1], number, history, report["data"]["rows"])
    _sizes(axes[1, 0], np.asarray(report["result"]["sizes"]))
    _centroids(axes[1, 1], centroids.astype(np.float64))
    figure.suptitle(_title(report), fontsize=10)
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure


def _things(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _title(report: dict[str, Any]) -> str:
    d, o, r = report["data"], report["options"], report["result"]
    text = (
        f"{_things(d['rows'], 'row')} x {_things(d['columns'], 'column')}, K={o['k']}, {o['metric']}, {o['device']}: "
        f"{r['iterations']} iterations ({r['stop']}), inertia {r['inertia']:.6g}"
    )
    return text + f", {1e3 * report['seconds']['total']:.1f} ms"


def _curves(ax: Any, number: Any, history: list[dict[str, Any]]) -> None:
    ax.plot(number, [it["inertia"] for it in history], "o-", ms=3, color="C0")
    ax.set(xlabel="iteration", title="inertia (blue), shift of the centroids (orange)")
    ax.tick_params(axis="y", colors="C0")
    shift = [it["shift"] if it["shift"] > 0 else math.nan for it in history]
    other = ax.twinx()
    other.plot(number, shift, "s-", ms=3, color="C1")
    if not all(math.isnan(s) for s in shift):
        other.set_yscale("log")
    other.tick_params(axis="y", colors="C1")


def _work(ax: Any, number: Any, history: list[dict[str, Any]], rows: int) -> None:
    skipped = np.array([it["rows_skipped"] for it in history]) / rows
    partial = np.array([it["rows_partial"] for it in history]) / rows
    changed = np.array([it["changed"] for it in history]) / rows
    ax.stackplot(
        number,
        skipped,
        partial,
        1 - skipped - partial,
        colors=["C2", "C8", "0.85"],
        labels=["no distance", "to moved centroids", "to all"],
    )
    ax.plot(number, changed, color="C3", label="label changed")
    ax.set(xlabel="iteration", title="share of rows by work", ylim=(0, 1))
    ax.legend(loc="lower right", fontsize=8)


def _sizes(ax: Any, sizes: Any) -> None:
    ax.bar(np.arange(len(sizes)), np.sort(sizes)[::-1], width=1.0, color="C4")
    ax.set(xlabel="clusters, largest first", title="rows of each cluster")


def _centroids(ax: Any, centroids: Any) -> None:
    k, d = centroids.shape
    if d == 2:
        ax.plot(centroids[:, 0], centroids[:, 1], "o", color="C5")
        ax.set(title="centroids", xlabel="column 0", ylabel="column 1")
        return
    side = math.isqrt(d)
    if side * side == d and side >= 8:  # looks like pictures
        across = math.ceil(math.sqrt(min(k, 100)))
        sheet = np.full((across * (side + 1), across * (side + 1)), np.nan)
        for j in range(min(k, across * across)):
            top, left = j // across * (side + 1), j % across * (side + 1)
            sheet[top : top + side, left : left + side] = centroids[j].reshape(side, side)
        ax.imshow(sheet, cmap="gray")
        ax.axis("off")
        ax.set(title="centroids as pictures")
        return
    shown = centroids[:200, :200]
    ax.imshow(shown, aspect="auto", cmap="viridis", interpolation="nearest")
    ax.set(title="centroids", xlabel="column", ylabel="cluster")


def main() -> None:
    """Draw what the command line names."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m holdfast.report", description="A picture of a fit."
    )
    parser.add_argument("result", help="folder with report.json and centroids.npy")
    parser.add_argument("-o", "--output", help="picture (default: report.png in that folder)")
    arguments = parser.parse_args()
    path = arguments.output or os.path.join(arguments.result, "report.png")
    try:
        plot(arguments.result, path)
    except (FileError, DataError, UnsupportedError, OSError) as error:
        sys.exit(f"holdfast.report: {error}")
    except ValueError as error:  # matplotlib's, of the ending
        sys.exit(f"holdfast.report: {path} cannot be drawn: {error}")
    except (KeyError, TypeError) as error:
        sys.exit(
            f"holdfast.report: the report in {arguments.result} is of another version: {error}"
        )
    print(path)


if __name__ == "__main__":
    main()
