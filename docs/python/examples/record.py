# SPDX-License-Identifier: Apache-2.0
"""Runs the examples that need a GPU, 10 GB of disk, or both, and keeps what the page shows of them.

python docs/python/examples/record.py bench/results/python-DEVICE-DATE.json

Less than a minute on an H200 with 16 cores. recorded.py draws the pictures.
"""

import json
import os
import pathlib
import sys
import time

import torch

import holdfast

HERE = pathlib.Path(__file__).parent


def run(name):
    """The variables of an example after it ran up to its picture, and its seconds."""
    code = (HERE / name).read_text().partition("\nimport matplotlib")[0]
    names, begin = {}, time.perf_counter()
    exec(compile(code, name, "exec"), names)
    return names, time.perf_counter() - begin


def record(km):
    """What report_ says, for JSON."""
    report = km.report_
    history = {word: report["history"][word].tolist() for word in ("inertia", "seconds")}
    return {**report, "history": history, "sizes": report["sizes"].tolist()}


def main(path):
    """Run the examples and write the file."""
    os.environ["HOLDFAST_EXAMPLE_ROWS"] = "20000000"
    names, whole = run("embeddings.py")
    first, again = record(names["km"]), record(names["km"].fit(names["embeddings"]))
    del names
    torch.cuda.empty_cache()
    found = {
        "device": torch.cuda.get_device_name(),
        "date": time.strftime("%Y-%m-%d"),
        "holdfast": holdfast.__version__,
        "torch": torch.__version__,
        "threads": len(os.sched_getaffinity(0)),
        "embeddings.py": {"seconds_whole": whole, "first": first, "again": again},
    }
    print(f"embeddings.py: {whole:.1f} s, {first['seconds']}, again {again['seconds']}", flush=True)
    names, whole = run("from_disk.py")
    found["from_disk.py"] = {
        "seconds_whole": whole,
        "bytes": os.path.getsize(names["path"]),
        "fit": record(names["km"]),
    }
    os.remove(names["path"])
    print(f"from_disk.py: {whole:.1f} s, fit {names['km'].report_['seconds']}")
    pathlib.Path(path).write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
