# SPDX-License-Identifier: Apache-2.0
"""Pictures of what record.py kept, in the folder that this file is in."""

import json
import pathlib

import matplotlib.pyplot as plt

RECORDS = sorted(pathlib.Path("../../../bench/results").glob("python-*.json"))


def begin(name, fit):
    """Inertia by iteration, and axes for something else."""
    record = json.loads(RECORDS[-1].read_text())
    found = record[name]
    report = found[fit]
    _, axes = plt.subplots(1, 2)
    inertia = report["history"]["inertia"]
    axes[0].plot(range(1, len(inertia) + 1), inertia, "o-", ms=3)
    axes[0].set(xlabel="iteration", ylabel="inertia")
    return record, found, report, axes


def embeddings():
    """Of embeddings.py."""
    record, _, report, axes = begin("embeddings.py", "again")
    axes[0].set_title(
        f"{report['rows']:,} x {report['columns']}, K={report['k']:,}: {report['iterations']} "
        f"iterations in {report['seconds']['total']:.2f} s\n{record['device']}",
        fontsize=9,
    )
    axes[1].plot(sorted(report["sizes"], reverse=True))
    axes[1].set(xlabel="cluster", ylabel="rows")
    axes[1].set_ylim(bottom=0)


def from_disk():
    """Of from_disk.py."""
    record, found, report, axes = begin("from_disk.py", "fit")
    axes[0].set_title(
        f"{found['bytes'] / 1e9:.1f} GB from disk, workspace "
        f"{report['workspace_bytes'] / 2**20:.0f} MiB\n{record['device']}",
        fontsize=9,
    )
    seconds = report["history"]["seconds"]
    axes[1].bar(range(1, len(seconds) + 1), seconds)
    axes[1].set(xlabel="iteration", ylabel="seconds")
