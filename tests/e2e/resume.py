# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost: kill -9 at any moment and resume, Ctrl-C and resume, give the bytes of an uninterrupted
run."""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DONE, HOLDFAST, INTERRUPTED, check, content, environment, equal, fit, holdfast,  # noqa: E402
                 loads, main, read_npy, same_files, scratch, start, test)

# Some hundred iterations of a few milliseconds each.
FIT = ["kmeans", CITIES, "-k", "100", "--tol", "0", "--max-iter", "80", "--seed", "11", "--threads", "2",
       "--init", "random", "--skipping", "off"]
KILLS = 20


def history(report):
    return [(r["inertia"], r["shift"], r["changed"], r["empty"]) for r in report["history"]]


@test
def kill_and_resume():
    """Each kill strikes at a random moment of the whole run; the next run goes on from what is there."""
    reference = scratch("reference")
    begin = time.monotonic()
    report = loads(holdfast(*FIT, "-q", "--json", "-o", reference).out)
    duration = time.monotonic() - begin
    rng = random.Random(20)
    early = late = 0
    for number in range(KILLS):
        checkpoint, out = scratch(f"kill-{number}.hfc"), scratch(f"kill-{number}")
        process = start(*FIT, "-q", "-o", out, "--checkpoint", checkpoint, "--every", 1)
        time.sleep(rng.random() * duration * 1.2)
        process.kill()
        process.communicate()
        late += process.returncode == 0
        early += not os.path.exists(checkpoint)
        for leftover in os.listdir(out) if os.path.exists(out) else []:
            check(process.returncode == 0 or leftover.endswith(".holdfast")
                  or content(f"{out}/{leftover}") == content(f"{reference}/{leftover}")
                  or leftover == "report.json", f"half a file: {leftover}")
        resume = ["--resume", checkpoint] if os.path.exists(checkpoint) else []
        again = loads(holdfast(*FIT, "-q", "--json", "-o", out, *resume).out)
        same_files(reference, out)
        equal(sorted(os.listdir(out)), ["centroids.npy", "labels.npy", "report.json"], "leftovers")
        equal(history(again), history(report), "history")
        equal(again["result"], report["result"], "result")
    print(f"{KILLS} kills within {duration * 1.2:.2f} s: {early} before the first checkpoint, {late} after the end")
    check(early + late < KILLS, "no kill struck a run under way")


@test
def killed_again_and_again():
    """One fit, killed many times, each time going on from the same file."""
    reference, out, checkpoint = scratch("chain-reference"), scratch("chain"), scratch("chain.hfc")
    begin = time.monotonic()
    holdfast(*FIT, "-q", "-o", reference)
    duration = time.monotonic() - begin
    rng = random.Random(3)
    for _ in range(6):
        resume = ["--resume", checkpoint] if os.path.exists(checkpoint) else []
        process = start(*FIT, "-q", "-o", out, "--checkpoint", checkpoint, "--every", 1, *resume)
        time.sleep(rng.random() * duration * 0.5)
        process.kill()
        process.communicate()
    resume = ["--resume", checkpoint] if os.path.exists(checkpoint) else []
    holdfast(*FIT, "-q", "-o", out, *resume)
    same_files(reference, out)


def interrupt(args, number, after="iteration 3:"):
    """Start, send a signal once a line of the progress was seen; exit code, standard output and error."""
    process = subprocess.Popen([HOLDFAST, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment())
    seen = b""
    while after.encode() not in seen:
        line = process.stderr.readline()
        check(line, f"ended before {after!r}: {seen[-300:]}")
        seen += line
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    return process.returncode, out.decode(), (seen + err).decode()


@test
def ctrl_c():
    reference = scratch("c-reference")
    fit(*FIT[1:], out=reference)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        out = scratch(f"out 'dir'\t\n {int(number)}")  # so that the command must be quoted
        code, text, err = interrupt([*FIT, "-o", out], number)
        equal(code, INTERRUPTED, err)
        equal(sorted(os.listdir(out)), ["centroids.npy", "checkpoint.hfc", "labels.npy", "report.json"])
        report = loads(content(out + "/report.json").decode())
        equal(report["result"]["stop"], "cancelled")
        check(3 <= report["result"]["iterations"] < 80, "iterations")
        equal(len(report["history"]), report["result"]["iterations"])
        equal(read_npy(out + "/labels.npy")[1], (report["data"]["rows"],))
        check("checkpoint.hfc" in text, "the summary names the checkpoint")
        # labels are those of the centroids written
        holdfast("predict", CITIES, "--centroids", out + "/centroids.npy", "-o", scratch("l.npy"), "-q")
        equal(content(scratch("l.npy")), content(out + "/labels.npy"), "labels")
        # the command printed goes on
        line = re.search(r"go on with:\n +(.*)\n", err).group(1)
        words = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
        command = words.stdout.split("\0")[:-1]
        equal(command[:2], ["holdfast", "kmeans"])
        holdfast(*command[1:], "-q")
        same_files(reference, out)
        equal(sorted(os.listdir(out)), ["centroids.npy", "labels.npy", "report.json"])


@test
def ctrl_c_with_a_named_checkpoint():
    checkpoint, out = scratch("named.hfc"), scratch("named")
    code, text, err = interrupt([*FIT, "--json", "--checkpoint", checkpoint], signal.SIGINT)
    equal(code, INTERRUPTED, err)
    equal(loads(text)["result"]["stop"], "cancelled")
    check("--resume " + checkpoint in err, err)
    fit(*FIT[1:], "--resume", checkpoint, out=out)
    reference = scratch("named-reference")
    fit(*FIT[1:], out=reference)
    same_files(reference, out)


@test
def ctrl_c_without_files():
    code, text, err = interrupt(FIT, signal.SIGINT)
    equal(code, INTERRUPTED, err)
    check("interrupted" in err and "--resume" not in err and "inertia" in text, err)


@test
def ctrl_c_during_initialisation():
    """There is no result yet: older files stay. What was chosen is saved, and the command printed goes on."""
    out, saved = scratch("early"), scratch("early-saved")
    fit(CITIES, "-k", 5, "--max-iter", 3, out=out)
    shutil.copytree(out, saved)
    process = start("kmeans", CITIES, "-k", 20000, "-q", "-o", out, "--checkpoint", scratch("early.hfc"),
                    "--device", "cpu")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=120)
    equal((process.returncode, text), (INTERRUPTED, b""), err)
    check(b"first centroids" in err and b"no result" in err, err)
    check(b"--resume " + scratch("early.hfc").encode() in err, err)
    same_files(out, saved, "centroids.npy", "labels.npy", "report.json")
    equal(len(os.listdir(out)), 3)


def killed_at_its_next_checkpoint(args, checkpoint):
    """Runs until the checkpoint has grown, then kills; False if the run came to its end before."""
    def size():
        return os.path.getsize(checkpoint) if os.path.exists(checkpoint) else 0
    before = size()
    process = start(*args, *(["--resume", checkpoint] if before else []))
    while process.poll() is None and size() <= before:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    if process.returncode != -signal.SIGKILL:
        equal(process.returncode, DONE)
        return False
    return True


@test
def killed_again_and_again_while_it_starts():
    """Each run lives until its next checkpoint only; the start comes to its end all the same."""
    args = ["kmeans", CITIES, "-k", 6000, "--max-iter", 1, "--threads", 1, "-q", "--device", "cpu"]
    for init in ("kmeans++", "kmeans-parallel"):  # the latter makes its rounds again
        out, reference, checkpoint = (scratch(name + init) for name in ("start", "start-reference", "start.hfc"))
        seconds = fit(CITIES, *args[2:-3], "--device", "cpu", "--init", init, out=reference)["seconds"]
        run = [*args, "--init", init, "-o", out, "--checkpoint", checkpoint]
        kills = 0
        while kills < 4 and killed_at_its_next_checkpoint(run, checkpoint):
            kills += 1
        print(f"{init}: {seconds['init']:.2f} s to start, {kills} kills, each after another checkpoint")
        check(kills > 0, "no kill struck the start")
        if kills == 4:  # else the last run came to its end
            holdfast(*run, "--resume", checkpoint)
        same_files(reference, out)


@test
def ctrl_c_where_no_checkpoint_can_be_written():
    """The result is written all the same, and an old checkpoint is not passed off as this run's."""
    out = scratch("blocked")
    os.makedirs(out + "/checkpoint.hfc")
    code, text, err = interrupt([*FIT, "-o", out], signal.SIGINT)
    equal(code, INTERRUPTED, err)
    check("no checkpoint" in err and "checkpoint.hfc" in err and "go on with" not in err, err)
    check("checkpoint.hfc" not in text, text)
    equal(sorted(os.listdir(out)), ["centroids.npy", "checkpoint.hfc", "labels.npy", "report.json"])
    equal(loads(content(out + "/report.json").decode())["result"]["stop"], "cancelled")


@test
def no_room_for_checkpoints():
    """A limit on file sizes, as a full disk: the result fits, the checkpoint does not. Then a folder that goes."""
    out, checkpoint = scratch("no-room"), scratch("no-room.hfc")
    args = ["kmeans", CITIES, "-k", 40000, "--init", "random", "--max-iter", 3, "--tol", 0, "--guard",
            "off", "-o", out, "--checkpoint", checkpoint, "--every", 1]
    size = os.path.getsize(CITIES) // 2 + 4096  # labels fit, two sets of centroids and more do not
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    reference = scratch("no-room-reference")
    fit(CITIES, *args[2:-6], out=reference)
    for quiet in ([], ["-q"]):
        result = holdfast(*args, *quiet, preexec_fn=limit)
        said = [line for line in result.err.splitlines() if "warning" in line]
        equal(len(said), 1 if quiet else 2, "warnings")
        check("no-room.hfc" in said[-1] and "too large" in said[-1] and " times)" in said[-1], str(result))
        check(not os.path.exists(checkpoint), "no checkpoint")
        same_files(out, reference)
        equal(loads(content(out + "/report.json").decode())["result"]["checkpoints_failed"], 4)


@test
def ignored_signals_stay_ignored():
    """A shell starts background jobs with SIGINT ignored: Ctrl-C is meant for others."""
    process = start(*FIT, "-q", "--json", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    time.sleep(0.15)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    equal((process.returncode, err), (DONE, b""))


@test
def a_terminal_that_closes():
    """SIGHUP comes more than once, and what is printed goes nowhere: files and checkpoint are there."""
    out, reference = scratch("hangup"), scratch("hangup-reference")
    fit(*FIT[1:], out=reference)
    process = start(*FIT, "-o", out)
    while b"iteration 3:" not in process.stderr.readline():
        check(process.poll() is None, "ended")
    process.stderr.close()
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
    process.stdout.read()
    equal(process.wait(timeout=120), INTERRUPTED)
    equal(sorted(os.listdir(out)), ["centroids.npy", "checkpoint.hfc", "labels.npy", "report.json"])
    holdfast(*FIT, "-q", "-o", out, "--resume", out + "/checkpoint.hfc")
    same_files(reference, out)
    process = start(*FIT, "-q", "--json", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # nohup
    time.sleep(0.15)
    process.send_signal(signal.SIGHUP)
    equal((process.communicate(timeout=120)[1], process.returncode), (b"", DONE))


@test
def only_its_own_checkpoint_is_removed():
    out = scratch("own")
    code, _, err = interrupt([*FIT, "-o", out], signal.SIGINT)
    equal(code, INTERRUPTED, err)
    saved = content(out + "/checkpoint.hfc")
    fit(CITIES, "-k", 5, "--max-iter", 3, out=out)  # another fit, not resumed from it
    equal(content(out + "/checkpoint.hfc"), saved, "the checkpoint of the other fit")
    holdfast(*FIT, "-q", "-o", out, "--resume", out + "/checkpoint.hfc")
    check(not os.path.exists(out + "/checkpoint.hfc"), "it was used up")
    fit(*FIT[1:], "--every", 5, out=out)
    check(not os.path.exists(out + "/checkpoint.hfc"), "written and removed by the same run")


@test
def second_signal_kills():
    process = subprocess.Popen([HOLDFAST, *FIT, "-k", "3000", "-q", "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    check(process.returncode in (-signal.SIGINT, INTERRUPTED), str(process.returncode))


@test
def old_results_survive_a_kill():
    out, saved = scratch("survive"), scratch("survive-saved")
    fit(CITIES, "-k", 5, "--max-iter", 3, out=out)
    shutil.copytree(out, saved)
    process = start(*FIT, "-q", "-o", out, "--checkpoint", scratch("survive.hfc"), "--every", 1)
    while not os.path.exists(scratch("survive.hfc")):
        time.sleep(0.001)
    process.kill()
    process.communicate()
    same_files(out, saved, "centroids.npy", "labels.npy", "report.json")


if __name__ == "__main__":
    main()
