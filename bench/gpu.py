#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast against flash-kmeans on one NVIDIA GPU: the assignment step, whole Lloyd iterations, fits.

Both run in this process on the same tensors; medians of device time after a warm-up. Labels are compared
with float64 on a sample of rows. Beside each figure stand the rate of torch's matrix product of that type
measured just before, and the clock read just after. Bars are judged row by row and all kept in the JSON.
Needs torch; rows of flash-kmeans need it installed. The library is the target holdfast_dev_shared."""
import argparse
import datetime
import json
import os
import re
import sys
import time

import torch

import gpu_assign
import gpu_fit
import gpu_measure
import gpu_once
import gpu_stream
import hf
import rows

# Rows nearest to their bars come first. "alone" leaves a recorder in the process and "sustained" a hot
# chip: after them only rows whose time a slower start of kernels does not change.
ORDER = [("once", None), ("fixed", None), ("whole", None), ("assign", "normal"), ("iterate", "normal"),
         ("start", None), ("batch", None), ("types", None), ("exact", "normal"), ("fit", None),
         ("iterate", "clustered"), ("exact", "clustered"), ("assign", "clustered"), ("alone", "normal"),
         ("stream", None), ("alone", "clustered"), ("sustained", "normal")]
SHOW = {"once": gpu_once.show_once, "fixed": gpu_once.show_fixed, "whole": gpu_fit.show_whole,
        "assign": gpu_assign.show_assign, "alone": gpu_assign.show_alone,
        "sustained": gpu_assign.show_sustained, "types": gpu_assign.show_types,
        "iterate": gpu_fit.show_iterate, "exact": gpu_fit.show_iterate, "fit": gpu_fit.show_fit,
        "batch": gpu_fit.show_batch, "start": gpu_fit.show_start, "stream": gpu_stream.show_stream}


def jobs_of(what, kind, ours, assign, fit, args):
    kinds = args.data.split(",")
    if what not in args.only.split(",") or (kind and kind not in kinds):
        return []
    if what in ("assign", "alone", "sustained"):
        return gpu_assign.assign_jobs(what, kind, ours, assign, args)
    if what in ("iterate", "exact"):
        return gpu_fit.iterate_jobs(what, kind, ours, fit, args)
    return {"once": lambda: gpu_once.once_jobs(args),
            "fixed": lambda: gpu_once.fixed_jobs(args),
            "whole": lambda: gpu_fit.whole_jobs(ours, fit, args),
            "types": lambda: gpu_assign.types_jobs(kinds, ours, args),
            "batch": lambda: gpu_fit.batch_jobs(ours, fit, args),
            "fit": lambda: gpu_fit.fit_jobs(ours, fit, args),
            "start": lambda: gpu_fit.start_jobs(ours, args),
            "stream": lambda: gpu_stream.stream_jobs(args)}[what]()


def show(row):
    print(SHOW[row["what"]](row), flush=True)


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", required=True, help="libholdfast_dev.so")
    p.add_argument("--results", help="folder for the JSON file")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--steps", type=int, default=20, help="iterations whose time is taken")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--processes", type=int, default=11, help="of rows once and fixed")
    p.add_argument("--skipping", default="off", choices=sorted(hf.SKIP))
    p.add_argument("--only", default=",".join(dict.fromkeys(what for what, _ in ORDER)),
                   help="of %(default)s")
    p.add_argument("--stream-gib", type=int, default=32, help="locked memory of the row stream")
    p.add_argument("--fashion", help="Fashion-MNIST's training images (IDX); generated ones without")
    p.add_argument("--data", default="normal,clustered")
    p.add_argument("--dtypes", default="f16,bf16", help="of the assignment alone")
    p.add_argument("--rows", default="", help="only rows in whose name this regular expression is found, "
                   "as in the list of those not run: --budget 0 prints all")
    p.add_argument("--no-rival", action="store_true")
    p.add_argument("--budget", type=float, default=1e9, help="seconds, then stop with what there is")
    args = p.parse_args()
    for given, known in ((args.only, SHOW), (args.dtypes, gpu_assign.DTYPES),
                         (args.data, ("normal", "clustered"))):
        for word in given.split(","):
            if word not in known:
                p.error(f"{word} is none of {', '.join(known)}")
    return args


def main():
    args, begin = parse(), time.time()
    version, assign, fit = (None, None, None) if args.no_rival else gpu_measure.flash()
    ours = hf.Holdfast(args.lib, 0, gpu_measure.DEV)
    device, day = torch.cuda.get_device_name(0), datetime.date.today().strftime("%Y%m%d")
    out = dict(device=device, torch=torch.__version__, date=day, holdfast=ours.version,
               flash_kmeans=version, rows=[], failed=[], left=[], stopped="ended from outside",
               seconds=0.0)

    def keep():
        torch.cuda.empty_cache()
        out["seconds"] = time.time() - begin
        if args.results:
            with open(os.path.join(args.results, f"{device.split()[-1].lower()}-{day}.json"), "w") as f:
                json.dump(out, f, indent=1)
    jobs = [job for what, kind in ORDER for job in jobs_of(what, kind, ours, assign, fit, args)
            if re.search(args.rows, job[0])]
    rows.run(jobs, out, keep, show, begin + args.budget)
    keep()
    print("\n".join(gpu_assign.table(out["rows"])))
    rows.summary(out)
    return rows.any_wrong(out)


if __name__ == "__main__":
    sys.exit(main())
