# SPDX-License-Identifier: Apache-2.0
"""holdfast inject: campaigns end with one table however they are cut, one fault, rates, files, what is refused."""
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, FAILED, HOLDFAST, INPUT, INTERRUPTED, RESOURCES, USAGE, check, content,  # noqa: E402
                 environment, equal, holdfast, loads, main, scratch, start, test)

FIT = ["inject", "kmeans", "--synthetic", "normal", "--rows", 300, "--columns", 6, "-k", 5, "--max-iter", 6]
# Where no fault makes a wild address: what such a one meets may differ from process to process.
# Nor are words struck that nothing has filled yet, as those of range.bad.
SAFE = ("means.*,range.call,range.rows,range.m*,moments.*,assign.s*,assign.best,assign.co*,assign.centroids,"
        "assign.rows,inertia.d*,inertia.t*")
LINE = "op=assign where=labels iteration=2 word=7 mask=0x1 when=after do=flip"


def text(*path):
    return content(os.path.join(*path)).decode()


def table(folder, name="faults.tsv"):
    head, names, *lines = text(scratch(folder), name).splitlines()
    check(head.startswith("# holdfast inject: ") and names.startswith("number\t"), head)
    return [dict(zip(names.split("\t"), line.split("\t"))) for line in lines]


def campaign(folder, *args, **more):
    return holdfast(*FIT, "--guard", "off", "--where", SAFE, "-o", scratch(folder), *args, **more)


@test
def campaigns_and_reports():
    result = campaign("whole", "--faults", 500)
    rows = table("whole")
    check(len(rows) > 300, "too few faults")
    report = loads(text(scratch("whole"), "report.json"))
    equal(report["all"]["faults"], len(rows))
    equal(sum(p["faults"] for p in report["places"].values()), len(rows))
    equal(sum(p["faults"] for p in report["models"].values()), len(rows))
    for outcome, count in report["all"]["off"].items():
        equal(count, sum(r["off"] == outcome for r in rows))
    check(report["all"]["off"]["silent"] > 0, "nothing stays silent without protection")
    check("| assign.score |" in result.out and result.out == text(scratch("whole"), "report.md"), result.out)
    bits = [line.split("\t") for line in text(scratch("whole"), "coverage.tsv").splitlines()]
    equal(sum(int(b[2]) for b in bits[1:]), sum(int(r["bit"]) >= 0 for r in rows))
    check("a second" in result.err, result.err)
    again = holdfast(*FIT, "--faults", 500, "--guard", "off", "--where", SAFE, "--json", "--quiet")
    equal(loads(again.out)["all"], report["all"])


@test
def wild_faults_end_no_campaign():
    args = ["--faults", 300, "--guard", "off", "--where", "assign.labels,assign.index,assign.move,inertia.labels"]
    report = loads(holdfast(*FIT, *args, "--json", "--quiet").out)
    check(report["all"]["faults"] > 200 and report["all"]["off"]["crash"] > 0, report["all"])


@test
def shards_are_one_campaign():
    for i in range(3):
        campaign("shards", "--faults", 300, "--shard", f"{i}/3")
    parts = [r for i in range(3) for r in table("shards", f"faults-{i}of3.tsv")]
    campaign("one", "--faults", 300)
    equal(sorted(parts, key=lambda r: int(r["number"])), table("one"))
    equal(loads(text(scratch("shards"), "report.json"))["all"], loads(text(scratch("one"), "report.json"))["all"])


@test
def killed_and_resumed():
    campaign("straight", "--faults", 2500)
    path = os.path.join(scratch("cut"), "faults.tsv")
    args = [HOLDFAST, *map(str, FIT), "--guard", "off", "--where", SAFE, "--faults", "2500", "--quiet", "-o",
            scratch("cut")]
    with subprocess.Popen(args, env=environment(), stdout=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists(path) and os.path.getsize(path) > 20000):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    with open(path, "ab") as f:
        f.write(b"9999\tassign\tsco")  # a line that was cut
    check(len(content(path).splitlines()) > 20, "nothing was done before the kill")
    campaign("cut", "--faults", 2500, code=USAGE)
    campaign("cut", "--faults", 2500, "--resume")
    equal(content(path), content(os.path.join(scratch("straight"), "faults.tsv")))
    campaign("cut", "--faults", 2500, "--resume")
    equal(content(path), content(os.path.join(scratch("straight"), "faults.tsv")))
    result = campaign("cut", "--faults", 2500, "--resume", "--seed", 4, code=INPUT)
    check("another campaign" in result.err, str(result))


@test
def one_fault():
    shown = loads(holdfast(*FIT, "--guard", "off", "--fault", LINE, "--json").out)
    equal((shown["fault"], shown["struck"], shown["altered"], shown["guarded"]), (LINE, 1, 1, None))
    out = holdfast(*FIT, "--fault", "op=assign where=score iteration=99 mask=1 do=flip").out
    check(re.search(r"without protection: not_activated\n +with it: not_activated", out), out)
    real = holdfast("inject", "kmeans", CITIES, "-k", 4, "--max-iter", 3, "--guard", "off", "--fault", LINE).out
    check("struck 1" in real, real)


@test
def rates_and_repeats():
    rate = loads(holdfast(*FIT, "--rate", 1000000, "--where", "assign.*", "--models", "nan", "--json").out)
    check(rate["struck"] > 0 and rate["clean_s"] > 0, rate)
    soak = loads(holdfast(*FIT, "--repeat", 5, "--json").out)
    equal((soak["fits"], soak["counts"]["confirmed"]), (5, 0))
    check(0 < soak["false_alarms_below"] <= 1, soak)
    check("0 confirmed" in holdfast(*FIT, "--repeat", 2).out, "soak")


@test
def places_are_listed():
    out = holdfast("inject", "kmeans", "--list").out
    for word in ("assign.score", "means.part", "centroids", "stuck1", "permanent"):
        check(word in out, word)


@test
def what_is_refused():
    for args, word in ((["--fault", "op=assign where=score do=flip"], "--fault: do=flip needs the bits"),
                       (["--fault", "op=assing where=score mask=1 do=flip"], "there is no such op"),
                       (["--fault", LINE, "--rate", 3], "exclude each other"),
                       (["--resume"], "-o DIR"),
                       (["--repeat", 3, "-o", scratch("no")], "write no files"),
                       (["--where", "nowhere.*"], "nowhere"),
                       (["--models", "flop"], "flop"),
                       (["--shard", "3/3"], "--shard"),
                       (["--guard", "none"], "--guard")):
        result = holdfast(*FIT, *args, code=USAGE)
        check(word in result.err and not result.out, str(result))
    check("cauchy" in holdfast("inject", "kmeans", "--synthetic", "mud", code=USAGE).err, "kinds")
    check("--synthetic" in holdfast("inject", "kmeans", code=USAGE).err, "no data")
    check("there is no 'kmean'" in holdfast("inject", "kmean", CITIES, code=USAGE).err, "another subject")
    check("both" in holdfast(*FIT[:4], CITIES, code=USAGE).err, "two data")
    holdfast("inject", "kmeans", scratch("missing.npy"), code=INPUT)
    check("-k 200,000: there are" in holdfast("inject", "kmeans", CITIES, "-k", 200000, code=INPUT).err, "rows")
    holdfast("inject", "kmeans", "--synthetic", "blobs", "--rows", 100, "-k", 101, code=USAGE)
    file = chain("file.mtx")
    for folder in (file, file + "/in"):
        holdfast(*FIT, "--faults", 1, "-o", folder, code=FAILED)


def chain(name):
    """A matrix whose rows are 4 on the diagonal and -1 beside it."""
    path = scratch(name)
    n = 400
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {2 * n - 1}\n")
        f.writelines(f"{i} {i} 4\n" for i in range(1, n + 1))
        f.writelines(f"{i + 1} {i} -1\n" for i in range(1, n))
    return path


@test
def table_of_relax():
    """Whole or not at all, and never in the place of the matrix."""
    matrix = chain("chain.mtx")
    args = ["inject", "relax", matrix, "--quiet", "-t", 2]
    before = content(matrix)
    check("overwritten" in holdfast(*args, "-o", matrix, code=USAGE).err and content(matrix) == before, "the matrix")
    for place in (scratch(""), scratch("nowhere/x.tsv")):
        check("cannot write" in holdfast(*args, "--faults", 3, "-o", place, code=FAILED).err, place)
    out = scratch("relax.tsv")
    check("masked" in holdfast(*args, "--faults", 40, "-o", out).out, "no table")
    whole = content(out)
    equal(len(whole.splitlines()), 41)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    holdfast(*args, "--faults", 400, "-o", out, code=RESOURCES, preexec_fn=limit)
    equal(content(out), whole)
    process = start(*args[:3], "-t", 2, "--faults", 1000000, "-o", out)
    while b"50 of" not in process.stderr.read1(200):
        check(process.poll() is None, "it ended by itself")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    equal(process.returncode, INTERRUPTED)
    check(len(content(out).splitlines()) > 50 and content(out).endswith(b"\n"), "what there was is not there")


@test
def folder_of_gemm():
    """Asked for before the work begins."""
    file = chain("no-folder.mtx")
    for folder in (file, file + "/in"):
        result = holdfast("inject", "gemm", "-o", folder, code=FAILED)
        check("cannot" in result.err and not result.out and "of 35" not in result.err, str(result))


main()
