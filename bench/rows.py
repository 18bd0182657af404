# SPDX-License-Identifier: Apache-2.0
"""Rows of a table of measurements: made one after the other within a budget, judged by their bars."""
import time
import traceback


def run(jobs, out, keep, show, end):
    """Rows of all jobs (name, call) for which there is time until `end`; `out` says why one is missing.
    Kept after each."""
    for i, (name, job) in enumerate(jobs):
        out["left"] = [name for name, _ in jobs[i:]]
        keep()
        start = time.time()
        if start > end:
            out["stopped"] = "the budget was used"
            return
        try:
            row = job()
            out["rows"].append(dict(row, took=time.time() - start))
            show(row)
            bars = speed_bars(row)
            if bars:
                print("    " + "; ".join(verdict(bar) for bar in bars), flush=True)
        except Exception as e:  # the other rows do not go with it
            out["failed"].append(dict(name=name, why=f"{type(e).__name__}: {e}",
                                      where=traceback.format_exc().splitlines()[-5:-1]))
            print(f"{name} failed: {out['failed'][-1]['why']}"[:400], flush=True)
    out["left"], out["stopped"] = [], None


def summary(out):
    bars = [(row, bar) for row in out["rows"] for bar in speed_bars(row)]
    missed = [(row, bar) for row, bar in bars if not bar["reached"]]
    print(f"bars: {len(bars) - len(missed)} reached, {len(missed)} missed, {len(out['failed'])} rows "
          f"failed, {len(out['left'])} not run, {out['seconds']:.0f} s")
    for row, bar in missed:
        print(f"missed: {shape(row)} {verdict(bar)}")
    for row in out["failed"]:
        print(f"failed: {row['name']}: {row['why']}")
    if out["left"]:
        print(f"not run, {out['stopped']}: {'; '.join(out['left'])}")


def any_wrong(out):
    """Is a label of ours wrong?"""
    return any(bar["most"] == 0 and not bar["reached"] for row in out["rows"]
               for bar in row.get("bars", []))


def judge(row, what, got, most=None, least=None):
    """Note whether a bar is reached; nothing where there is no bar or no figure."""
    if got is not None and (most is not None or least is not None):
        reached = got <= most if most is not None else got >= least
        row.setdefault("bars", []).append(
            dict(what=what, got=got, most=most, least=least, reached=reached))


def speed_bars(row):
    """What is worth a word: not that no label is wrong."""
    return [bar for bar in row.get("bars", []) if bar["most"] != 0 or not bar["reached"]]


def verdict(bar):
    sign, limit = ("<=", bar["most"]) if bar["most"] is not None else (">=", bar["least"])
    missed = f"MISSED by {abs(bar['got'] / limit - 1) * 100:.1f} %" if limit else "MISSED"
    return f"{bar['what']} {bar['got']:.4g} {sign} {limit:g} {'reached' if bar['reached'] else missed}"


def shape(row):
    many = f"{row['batch']} x " if row.get("batch", 1) > 1 else ""
    return (f"{row['what']:9s} {row['dtype']:4s} {row['data']:9s} {many}{row['n']} x {row['d']}, "
            f"k {row['k']}:")


def ms(*seconds):
    return " / ".join("-" if s is None else f"{s * 1e3:.4f}" for s in seconds) + " ms"
