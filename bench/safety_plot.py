#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""safety_plot.py report.json [OUT.png]: cost of execution signatures against their coverage, at 80x80.

report.json is what `holdfast inject gemm -o FOLDER` writes. One picture for each form, bands as in IEC 61508.
"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BANDS = [(60, 90, "#fdecc8", "low"), (90, 99, "#d8ecd0", "medium"), (99, 100.5, "#b5dcb0", "high")]


def at_80(scheme):
    bits = next(b for b in scheme["single_bits"] if b["shape"] == "80")
    ratio = next((t["ratio"] for t in scheme["timing"] if t["shape"] == "80"), None)
    if "coverage_percent" in bits:
        return ratio, bits["coverage_percent"]
    return ratio, 100 * bits["operand_detected"] / bits["operand_faults"]


def draw(axes, report, form):
    for low, high, color, name in BANDS:
        axes.axhspan(low, high, color=color, label=f"{name} ({low} % and more)")
    schemes = [s for s in report["schemes"] if s["form"] == form]
    for scheme in schemes + (report["gemm"] if form == "seq" else []):
        ratio, coverage = at_80(scheme)
        if ratio is None:
            continue
        ours = ":" in scheme["scheme"]
        axes.plot(ratio, coverage, "r*" if ours else "k.", markersize=9 if ours else 6)
        axes.annotate(scheme["scheme"], (ratio, coverage), fontsize=6, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlabel("time with signatures / time without")
    axes.set_ylabel("single bits of A and B detected, %")
    axes.set_title(f"{form}, 80x80, {report['cpu']}", fontsize=9)
    axes.legend(fontsize=7, loc="lower right")


def main(path, out):
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    forms = sorted({s["form"] for s in report["schemes"]}, reverse=True)
    figure, axes = plt.subplots(1, len(forms), figsize=(7 * len(forms), 5), squeeze=False)
    for one, form in zip(axes[0], forms):
        draw(one, report, form)
    figure.tight_layout()
    figure.savefig(out, dpi=150)
    print(out)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "tradeoff.png")
