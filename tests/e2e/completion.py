# SPDX-License-Identifier: Apache-2.0
"""Completion in bash offers the verbs, options and values that the program knows, and no others."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import HOLDFAST, ROOT, USAGE, Skip, check, environment, equal, holdfast, main, scratch, test  # noqa: E402

SCRIPT = os.path.join(ROOT, "tools", "holdfast", "holdfast.bash")
VERBS = re.findall(r"^COMMAND\((\w+)", open(os.path.join(ROOT, "tools/holdfast/commands.def")).read(), re.M)
# What a verb needs before it looks at others, or to be done soon.
NEEDED = {"kmeans": ["x.npy", "-k", "2"], "predict": ["x.npy", "--centroids", "c.npy", "-o", "l.npy"],
          "transform": ["x.npy", "--centroids", "c.npy", "-o", "d.npy"], "score": ["x.npy", "--centroids", "c.npy"],
          "gemm": ["a.npy", "b.npy", "-o", "c.npy"], "solve": ["A.mtx"],
          "plan": ["assign", "1", "1", "1"], "bench": ["--shape", "1,1,1", "--budget", "0.001"],
          "tune": ["--shape", "1,1,1", "--budget", "0.001", "-o", "t.tune"]}


def complete(*words, cwd=None):
    """What is offered for the last of the words after the name of the program."""
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    body = ('. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _holdfast "$1"; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", body, SCRIPT, HOLDFAST, *words], capture_output=True, text=True,
                          env=environment(), cwd=cwd)
    equal((done.returncode, done.stderr), (0, ""), f"completing {words}")
    return [line for line in done.stdout.split("\n") if line]


def options(verb):
    """Long options of a verb; whether a value follows."""
    found = re.findall(r"^ +(?:-\S, )?--([a-z][a-z0-9-]*)(\[?=)?", holdfast(verb, "--help").out, re.M)
    return {"--" + name: bool(equals) for name, equals in found}


@test
def verbs():
    equal(complete(""), [*VERBS, "--help", "--version"])
    equal(complete("k"), ["kmeans"])


@test
def every_option_of_every_verb():
    for verb in VERBS:
        expected = sorted(name + ("=" if value else "") for name, value in options(verb).items())
        equal(sorted(complete(verb, "--")), expected, verb)
        equal(sorted(w for w in complete(verb, "-") if w.startswith("--")), expected, verb)
    check("-k" in complete("kmeans", "-"), "short ones too")
    equal(complete("kmeans", "--metr"), ["--metric="])


def accepted(verb, option):
    """The names that the program lists when it gets another one; None: it takes other things."""
    result = holdfast(verb, *NEEDED.get(verb, []), option, "no-such-name", code=None, cwd=scratch())
    listed = re.search(r"must be one of (.*)|there are (.*)|must be (kmeans\+\+.*) or the name", result.err)
    if result.code != USAGE or not listed:
        return None
    return next(text for text in listed.groups() if text).split(", ")


@test
def values_are_those_that_are_accepted():
    lists = 0
    for verb in VERBS:
        for option in [name for name, value in options(verb).items() if value]:
            names = accepted(verb, option)
            if names is None:
                continue
            lists += 1
            os.makedirs(scratch("nothing"), exist_ok=True)
            for words in ([option, ""], [option, "="], [option, "=", ""]):
                equal(sorted(complete(verb, *words, cwd=scratch("nothing"))), sorted(names), f"{verb} {option}")
            equal(complete(verb, option, "=", names[0]), [n for n in names if n.startswith(names[0])])
    check(lists >= 26, f"only {lists} options with lists of names were found")
    check({"auto", "cpu"} <= set(complete("kmeans", "--device", "")), "devices")


@test
def files_elsewhere():
    folder = scratch("files")
    os.makedirs(folder)
    for name in ("data.npy", "dates.csv", "kmeans.txt"):
        open(os.path.join(folder, name), "w").close()
    equal(sorted(complete("kmeans", "da", cwd=folder)), ["data.npy", "dates.csv"])
    equal(complete("kmeans", "--weights", "=", "dat", cwd=folder)[:1], ["data.npy"])
    equal(sorted(complete("kmeans", "--init", "k", cwd=folder)), ["kmeans++", "kmeans-parallel", "kmeans.txt"])


if __name__ == "__main__":
    main()
