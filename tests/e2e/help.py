# SPDX-License-Identifier: Apache-2.0
"""Help, version, usage errors, and that the manual knows every verb and option."""
import re
import sys
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import INPUT, ROOT, USAGE, check, equal, holdfast, loads, main, test  # noqa: E402

VERBS = re.findall(r"^COMMAND\((\w+)", open(os.path.join(ROOT, "tools/holdfast/commands.def")).read(), re.M)
SECOND = [["bench", "portability"], ["bench", "relax"], ["inject", "gemm"], ["inject", "relax"], ["inject", "kmeans"]]


@test
def top_level():
    text = holdfast("--help").out
    for verb in VERBS:
        check(re.search(rf"^  {verb} ", text, re.M), f"--help does not list {verb}")
    for code in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "130"):
        check(re.search(rf"^  {code} ", text, re.M), f"--help does not explain exit code {code}")
    equal(holdfast("help").out, text)
    check(re.fullmatch(r"holdfast \d+\.\d+\.\d+\n", holdfast("--version").out), "version")


@test
def no_verb():
    result = holdfast(code=USAGE)
    check("Usage:" in result.err and result.out == "", str(result))


@test
def unknown_verb():
    for wrong, right in (("kmean", "kmeans"), ("k-means", "kmeans"), ("pedict", "predict"), ("inf", "info")):
        result = holdfast(wrong, code=USAGE)
        check(f"did you mean '{right}'" in result.err, str(result))
    result = holdfast("xylophone", code=USAGE)
    check("did you mean" not in result.err and "holdfast --help" in result.err, str(result))


@test
def unknown_option():
    for verb, wrong, right in (("kmeans", "--metrc", "--metric"), ("kmeans", "--seeed=3", "--seed"),
                               ("kmeans", "-centroids", "--centroids"), ("info", "--jsn", "--json"),
                               ("predict", "--distnces=2", "--distances"), ("plan", "--halp", "--help")):
        for more in ([], ["x.npy", "-q"]):
            result = holdfast(verb, *more, wrong, code=USAGE)
            check(f"did you mean '{right}'" in result.err and wrong.split("=")[0] in result.err, str(result))
            check(result.out == "" and "--help" in result.err, str(result))
    for args in (("kmeans", "--xylophone"), ("kmeans", "--me", "dot"), ("kmeans", "-Z"), ("kmeans", "x", "-k"),
                 ("kmeans", "x.npy", "-k", "2", "--", "--metrc")):
        result = holdfast(*args, code=USAGE)
        check("did you mean" not in result.err and "--help" in result.err, str(result))
    result = holdfast("kmeans", "none.npy", "-o", "--metrc", "-k", 2, code=INPUT)  # a value, no option
    check("none.npy" in result.err, str(result))


@test
def each_verb():
    for verb in VERBS:
        result = holdfast(verb, "--help")
        check(result.out.startswith(f"Usage: holdfast {verb}") and result.err == "", str(result))
        check(f"holdfast {verb}" in holdfast(verb, "--usage").out, f"--usage of {verb}")
        result = holdfast(verb, "--no-such-option", code=USAGE)
        check("no-such-option" in result.err and result.out == "", str(result))


@test
def manual_is_complete():
    with open(os.path.join(ROOT, "man", "holdfast.1"), encoding="utf-8") as f:
        manual = f.read().replace("\\-", "-")
    for verb in VERBS:
        check(re.search(rf"holdfast {verb}\b", manual), f"the manual does not mention {verb}")
    for words in [[verb] for verb in VERBS] + SECOND:
        text = holdfast(*words, "--help").out
        check("Mandatory or optional" not in text, f"argp's remark in the help of {words}")
        for option in re.findall(r"^ .*?(--[a-z][a-z0-9-]*)", text, re.M):
            check(option in manual, f"the manual does not mention {option} of {words}")


@test
def messages_of_the_library_are_translated():
    """C names in its messages become options, but for those that no option leads to."""
    with open(os.path.join(ROOT, "tools", "holdfast", "wording.c"), encoding="utf-8") as f:
        known = set(re.findall(r'^ *\{"(\w+)",', f.read(), re.M))
    # given centroids and init always agree here; the other is about the build
    unreachable = {"HF_INIT_GIVEN", "HF_MAX_OPS"}
    names = {}
    for top, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in [n for n in files if n.endswith((".c", ".cu", ".cuh")) and "harness" not in top]:
            with open(os.path.join(top, name), encoding="utf-8") as f:
                # character constants first, so that the one of a quote does not open a string
                for text in re.findall(r"""'(?:\\.|[^'\\\n])'|"(?:[^"\\\n]|\\.)*\"""", f.read()):
                    for word in re.findall(r"\bHF_[A-Z_]+|\bmemory_bytes\b", text):
                        if " " in text:
                            names.setdefault(word, name)
    variables = {n for n in names if re.match("HF_(KERNEL_|ISA_MAX|TUNE_FILE|GUARD_WITHOUT|OPENCL_LIBRARY|CUDA$)", n)}
    check({"HF_NAN_DROP", "memory_bytes"} <= set(names), f"messages were not found: {names}")
    missing = {n: where for n, where in names.items() if n not in known | unreachable | variables}
    check(not missing, f"not in wording.c: {missing}")


@test
def info():
    text = holdfast("info").out
    for word in ("build", "CPU", "cores", "instruction sets", "avx2", "devices", "cuda", "environment",
                 "kernels of assign", "assign_ref"):
        check(word in text, f"info does not say {word}")
    report = loads(holdfast("info", "--json").out)
    check(report["host"]["cores"] >= 1 and report["host"]["l1_bytes"] > 0, "host")
    names = [isa["name"] for isa in report["instruction_sets"]]
    equal(names[0], "scalar")
    for isa in report["instruction_sets"]:
        check((isa["why_not"] == "") == (isa["compiled"] and isa["runs_here"]), f"reason of {isa}")
    ops = {op["op"]: op for op in report["ops"]}
    check(any(row["reference"] and row["runs_here"] for row in ops["assign"]["kernels"]), "reference")
    equal(ops["assign"]["planned"]["dimensions"], {"n": 100000, "k": 256, "d": 64})
    equal(list(ops["range"]["planned"]["dimensions"]), ["n", "d"])
    equal(ops["lloyd"]["planned"], None)
    check(ops["assign"]["planned"]["kernel"] in [row["name"] for row in ops["assign"]["kernels"]], "plan")
    check(all(d["available"] or d["text"] for d in report["devices"]), "missing devices have a reason")
    holdfast("info", "more", code=USAGE)


@test
def info_obeys_isa_max():
    report = loads(holdfast("info", "--json", env={"HF_ISA_MAX": "scalar"}).out)
    equal([isa["name"] for isa in report["instruction_sets"] if isa["runs_here"]], ["scalar"])
    equal(report["environment"]["HF_ISA_MAX"], "scalar")


if __name__ == "__main__":
    main()
