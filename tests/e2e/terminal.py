# SPDX-License-Identifier: Apache-2.0
"""The bar on a terminal: one line, at most ten times a second, no colours with NO_COLOR."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, HOLDFAST, Skip, check, environment, equal, holdfast, main, scratch, test,  # noqa: E402
                 write_npy)

FIT = ["kmeans", CITIES, "-k", "300", "--tol", "0", "--max-iter", "200", "--threads", "2", "--skipping", "off"]


def on_terminal(args, columns=100, env=None):
    """What a run writes to a terminal of that width, and how long it took."""
    try:
        master, slave = pty.openpty()
    except OSError as reason:
        raise Skip(f"the system gives no pseudo-terminal: {reason}") from None
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = ["-o", scratch("out")] if args[0] == "kmeans" else []  # without it a fit says that nothing is kept
    begin = time.monotonic()
    process = subprocess.Popen([HOLDFAST, *args, *kept], stdout=subprocess.DEVNULL, stderr=slave,
                               env=environment({"TERM": "xterm", **(env or {})}))
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        text += piece
    equal(process.wait(), 0, text[-300:])
    os.close(master)
    return text.decode(), time.monotonic() - begin


def visible(text):
    return re.sub(r"\033\[[0-9;]*[A-Za-z]", "", text)


@test
def bar_of_rows():
    """Passes over rows have a bar too, and are quiet where there is no terminal."""
    c = write_npy(scratch("c.npy"), [[float(i % 180 - 90), float(i % 361 - 180)] for i in range(60000)])
    args = ["score", CITIES, "--centroids", c, "--threads", "1"]
    text, seconds = on_terminal(args)
    draws = [visible(part) for part in text.split("\r") if visible(part)]
    check(draws and "\n" not in text and len(draws) <= seconds * 10 + 2, f"{len(draws)} draws in {seconds:.2f} s")
    for draw in draws:
        check(re.match(r"score \[=* *\] \d+ %, about .* left", draw), repr(draw))
    check(text.endswith("\r\033[K"), "taken away at the end")
    equal(on_terminal([*args, "--json", "-q"])[0], "")
    equal(holdfast(*args).err, "")


@test
def bar():
    text, seconds = on_terminal(FIT, 140)
    draws = [visible(part) for part in text.split("\r") if visible(part)]
    check(draws and "\n" not in text, f"no single line: {text[-300:]!r}")
    check(len(draws) <= seconds * 10 + 2, f"{len(draws)} draws in {seconds:.2f} s")
    check(all(len(d) < 140 for d in draws), "lines wrap")
    last = next(d for d in reversed(draws) if "iteration" in d)
    for word in ("/200", "[", "at most", "left", "inertia", "shift", "changed"):
        check(word in last, f"{word} is not in {last!r}")
    check("\033[36m" in text and text.endswith("\r\033[K"), "colour, and taken away at the end")
    # what one waits for comes first: it is there on a terminal of the usual width, too
    for more in ([], ["--n-init", "3"]):
        draws = [visible(part) for part in on_terminal([*FIT, *more], 80)[0].split("\r") if "iteration" in part]
        check(draws and all(len(d) < 80 and " left  " in d and "rows/s" in d for d in draws), repr(draws[-3:]))


@test
def no_color():
    text, _ = on_terminal(FIT, env={"NO_COLOR": "1"})
    check("\033[36m" not in text and "iteration" in text, "NO_COLOR")


@test
def narrow():
    text, _ = on_terminal(FIT, 30)
    check(all(len(visible(part)) < 30 for part in text.split("\r")), "lines wrap")


@test
def dumb():
    text, _ = on_terminal(["kmeans", CITIES, "-k", "5", "--max-iter", "4"], env={"TERM": "dumb"})
    check("\033" not in text and "iteration 1:" in text, repr(text[:200]))


@test
def quiet():
    text, _ = on_terminal(["kmeans", CITIES, "-k", "5", "--max-iter", "4", "--quiet"])
    equal(text, "")


@test
def several_runs():
    text, _ = on_terminal([*FIT, "--n-init", "3"])
    check("run 1/3" in text or "run 2/3" in text, repr(text[-300:]))


if __name__ == "__main__":
    main()
