# SPDX-License-Identifier: Apache-2.0
"""holdfast plan, bench and tune: what they say fits together, and what they are asked is checked."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import CITIES, FAILED, INPUT, USAGE, check, content, equal, holdfast, loads, main, scratch, test  # noqa: E402

QUICK = ["--rounds", 1, "--budget", 0.01]


def write(name, text):
    with open(scratch(name), "w", encoding="utf-8") as f:
        f.write(text)
    return scratch(name)


def bench(*args):
    return loads(holdfast("bench", *QUICK, "--json", *args).out)


@test
def plan():
    chosen = holdfast("plan", "assign", 1000, 8, 4).out.split()[0]
    report = loads(holdfast("plan", "assign", 1000, 8, 4, "--json").out)
    equal((report["op"], report["kernel"]), ("assign", chosen))
    equal([row["kernel"] for row in report["rows"] if row["chosen"]], [chosen])
    check(chosen in holdfast("plan", "assign", 1000, 8, 4, "--explain", "--dtype", "f64").out, "--explain")
    equal(holdfast("plan", "assign", "d=4", "n=1000", "k=8").out.split()[0], chosen)
    check(holdfast("plan", "range", 1000, 4).out.startswith("range_"), "an op of two dimensions")
    check(holdfast("plan", "seed", 1000, 8, 4, "--flags", "commit").out.startswith("seed_"), "--flags")
    for args in ([], ["assign"], ["assign", 1, 1], ["assign", 0, 1, 1], ["assign", 1, 1, "x"], ["assign", 1, 1, 1, 1],
                 ["assign", "n=1", "n=1", "k=1"], ["assign", "n=1", "k=1", "z=1"], ["assign", 1, 1, 1, 1, 1],
                 ["range", 1, 1, 1], ["assign", 1, 1, "99999999999999999999"],
                 ["nothing", 1, 1, 1], ["assign", 1, 1, 1, "--dtype", "i8"],
                 ["assign", 1, 1, 1, "--dtype", "f32,f32"], ["assign", 1, 1, 1, "--flags", "commit"]):
        result = holdfast("plan", *args, code=USAGE)
        check(result.err.startswith("holdfast plan: ") and result.out == "", str(result))


@test
def bench_measures_what_it_was_asked():
    rows = bench("--shape", "500,4,3", "--shape", "300,2,5", "--dtype", "f64", "--threads", 1)["rows"]
    equal([(r["op"], r["dtype"], *r["dimensions"].items(), r["threads"]) for r in rows],
          [("assign", "f64", ("n", 500), ("k", 4), ("d", 3), 1), ("assign", "f64", ("n", 300), ("k", 2), ("d", 5), 1)])
    check(all(r["planned"] and 0 < r["min_s"] <= r["median_s"] <= r["max_s"] for r in rows), "times")
    suite = write("suite.txt", "# shapes\nassign f32 400 4 3\n\nupdate f64 100 4 3 # small\nassign u8 50 2 2\n"
                  "range f32 30 2\nseed f32 n=40 d=2 l=3 commit")
    equal([(r["op"], r["dtype"], r["dimensions"]["n"], r["flags"]) for r in bench("--suite", suite)["rows"]],
          [("assign", "f32", 400, []), ("update", "f64", 100, []), ("assign", "u8", 50, []), ("range", "f32", 30, []),
           ("seed", "f32", 40, ["commit"])])
    equal([r["dimensions"]["n"] for r in bench("--suite", suite, "--op", "update")["rows"]], [100])
    equal([r["dimensions"] for r in bench("--op", "range", "--device", "cpu")["rows"]], [{"n": 100000, "d": 64}])
    equal(bench("--shape", "50,2,2", "--data", "normal", "--device", "cpu")["data"], "normal")
    every = bench("--shape", "50,2,2", "--kernel", "all")["rows"]
    equal(len([r for r in every if r["planned"]]), 1)
    text = holdfast("bench", *QUICK, "--shape", "50,2,2").out
    check("ceilings" in text and "assign" in text, text)


@test
def usage():
    for verb in ("bench", "tune"):
        for args, word in ((["--shape", "1,2"], "1,2: assign takes n, k, d"), (["--shape", "1,2,0"], "1,2,0"),
                           (["--op", "range", "--shape", "1,2,3"], "range takes n, d"),
                           (["--op", "seed", "--flags", "x"], "flags of seed are commit"),
                           (["--flags", "x"], "no flags"),
                           (["--dtype", "f32,f64"], "types of assign are x"),
                           (["--op", "nothing"], "there are assign"), (["--dtype", "f8"], "bf16"),
                           (["--rounds", 0], "--rounds"), (["--budget", "x"], "--budget"), (["--suite", ""], "--suite"),
                           (["--threads", 0], "--threads"), (["--device", "gpu"], "holdfast info"),
                           (["--shape", "1,1,1"] * 257, "256 shapes"), (["more"], "argument")):
            result = holdfast(verb, *args, code=USAGE)
            check(word in result.err, f"lacks {word}\n{result}")
    result = holdfast("bench", "--kernel", "none", code=USAGE)
    check("no such kernel" in result.err and result.out == "", str(result))
    check("plan: assign takes" in holdfast("plan", "assign", code=USAGE).err, "a colon before nothing")


@test
def bad_suites():
    fine = "assign f32 1 1 1"
    for text, line in (("assign f32 1 1\n", 1), (fine + "\nassign f99 1 1 1\n", 2), (fine + " 1\n", 1),
                       ("\n\nassign f32 0 1 1\n", 3), ("nothing f32 1 1\n", 1), (fine + " commit\n", 1),
                       ("range f32 1 1 1\n", 1),
                       ("seed f32 1 1 1 x\n", 1), (fine + " 1" * 20 + "\n", 1), (fine + " #" + "-" * 300 + "\n", 1),
                       ((fine + "\n") * 257, 257)):
        result = holdfast("bench", "--suite", write("bad.txt", text), code=INPUT)
        check(f"bad.txt: line {line} " in result.err and result.out == "", str(result))
    for verb, path, word in (("bench", write("comment.txt", "# nothing\n"), "no call"),
                             ("tune", scratch(""), "directory")):
        result = holdfast(verb, "--suite", path, code=INPUT)
        check(word in result.err and result.out == "", str(result))
    result = holdfast("tune", "--suite", scratch("none.txt"), code=INPUT)
    check("none.txt: No such file" in result.err, str(result))


@test
def tuned_plans_are_followed():
    path = scratch("my.tune")
    said = holdfast("tune", *QUICK, "--shape", "2000,8,4", "-o", path).out
    check("HF_TUNE_FILE=" + path in said, said)
    fastest = [line.split()[1] for line in said.splitlines() if line.startswith("  * ")]
    env = {"HF_TUNE_FILE": path}
    equal(holdfast("plan", "assign", 2000, 8, 4, env=env).out, f"{fastest[0]} (tuned)\n")
    before = content(path)
    result = holdfast("tune", *QUICK, "--shape", "1,1,1", "-o", scratch("no/such.tune"), code=FAILED)
    check("no/such.tune" in result.err and result.out == "", f"measured before it looked\n{result}")
    equal(content(path), before)
    other = write("notes.txt", "not to be lost\n")
    result = holdfast("tune", *QUICK, "--shape", "1,1,1", "-o", other, code=INPUT)
    check("no tuning file" in result.err and result.out == "", str(result))
    equal(content(other), b"not to be lost\n")


@test
def a_tuning_file_that_does_not_help():
    """Named, but missing or not what it should be: said, and done without."""
    plan = ["plan", "assign", 2000, 8, 4]
    chosen = holdfast(*plan).out
    entry = "assign x=f32 n=2^10,k=2^3,d=2^2 - another-machine assign_ref 5\n"
    old = "# holdfast " + re.search(r"[0-9.]+", holdfast("--version").out).group() + ": op dtype log2(n)\n"
    for text, word in ((None, "No such file"), ("what is this?\n", "line 1 is no entry"),
                       (entry + "\n# fine\njunk\n", "line 4 is no entry"), ("", "nothing about this machine"),
                       ("# holdfast 0.0.1: op dtype\n" + entry, "another version"),
                       (old + "assign f32 10 3 2 another-machine assign_ref 5\n", "another format"),
                       (entry, "nothing about this machine")):
        path = scratch("none.tune") if text is None else write("odd.tune", text)
        result = holdfast(*plan, env={"HF_TUNE_FILE": path})
        check(f"warning: HF_TUNE_FILE={path}: " in result.err and word in result.err, str(result))
        equal(result.out, chosen)
    result = holdfast("kmeans", CITIES, "-k", 2, "--max-iter", 1, env={"HF_TUNE_FILE": scratch("none.tune")})
    check("No such file" in result.err, str(result))
    result = holdfast("kmeans", CITIES, "-k", 2, "--max-iter", 1, "-q", "--json",
                      env={"HF_TUNE_FILE": scratch("none.tune")})
    equal(result.err, "")


@test
def an_older_table_stays():
    """Whether it can be written is asked before hours are spent, and without harm."""
    old = write("old.tsv", "kept\n")
    name = old[:-len(".tsv")]
    result = holdfast("bench", "portability", "-o", name, "--with", scratch("none.tsv"), code=INPUT)
    check("none.tsv" in result.err, str(result))
    equal(content(old), b"kept\n")
    for verb in ("portability", "relax"):
        result = holdfast("bench", verb, "-o", scratch("no/such"), code=FAILED)
        check("no/such.tsv cannot be written" in result.err, str(result))
    check(not [name for name in os.listdir(scratch("")) if name.endswith(".part")], "parts were left")


if __name__ == "__main__":
    main()
