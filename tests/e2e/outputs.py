# SPDX-License-Identifier: Apache-2.0
"""Outputs appear whole or not at all: full disk, size limits, folders that cannot be written to."""
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DONE, FAILED, HOLDFAST, RESOURCES, ROOT, Skip, USAGE, blobs, check, check_result,  # noqa: E402
                 content, environment, equal, fit, holdfast, loads, main, obedient, on_small_disk, same_files, scratch,
                 start, test, write_npy)

ROWS = blobs(3000, 4, 5, seed=5)
NAMES = ("centroids.npy", "labels.npy", "report.json")


def data():
    path = scratch("data.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


def snapshot(folder):
    return {name: content(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if os.path.isfile(os.path.join(folder, name))}


def unchanged(folder, before):
    """Names and contents, hidden and temporary files included."""
    equal(sorted(os.listdir(folder)), sorted(before), "files in " + folder)
    now = snapshot(folder)
    equal({name: now[name] for name in before}, before, "contents of " + folder)


@test
def folders_are_made():
    out = scratch("a/b//c/")
    fit(data(), "-k", 3, out=out)
    equal(sorted(os.listdir(out)), list(NAMES))


@test
def old_files_are_replaced_and_others_stay():
    out = scratch("replace")
    os.mkdir(out)
    with open(out + "/notes.txt", "w") as f:
        f.write("mine")
    fit(data(), "-k", 3, out=out)
    first = snapshot(out)
    fit(data(), "-k", 4, out=out)
    check(snapshot(out)["centroids.npy"] != first["centroids.npy"], "not replaced")
    equal(snapshot(out)["notes.txt"], b"mine")
    equal(sorted(os.listdir(out)), sorted([*NAMES, "notes.txt"]))
    check_result(out, ROWS)


@test
def file_size_limit():
    out = scratch("limit")
    fit(data(), "-k", 3, out=out)
    before = snapshot(out)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    result = holdfast("kmeans", data(), "-k", 4, "-o", out, "-q", code=RESOURCES, preexec_fn=limit)
    check("too large" in result.err and "was left as it was" in result.err, str(result))
    unchanged(out, before)
    fresh = scratch("limit-fresh")
    checkpoint = scratch("limit.hfc")
    result = holdfast("kmeans", data(), "-k", 4, "-o", fresh, "-q", "--checkpoint", checkpoint, code=RESOURCES,
                      preexec_fn=limit)
    check(not os.path.exists(fresh), "made in vain")
    check(fresh + "/labels.npy" in result.err, f"not the name that the user knows\n{result}")
    # the fit is saved: it ends at once where there is room
    check("--resume " + checkpoint in result.err, str(result))
    fit(data(), "-k", 4, "--resume", checkpoint, out=fresh)
    reference = scratch("limit-reference")
    fit(data(), "-k", 4, out=reference)
    same_files(fresh, reference)
    equal(sorted(os.listdir(fresh)), list(NAMES))


@test
def full_disk():
    def work(folder):
        out = os.path.join(folder, "out")
        fit(data(), "-k", 3, out=out)
        before = snapshot(out)
        with open(os.path.join(folder, "ballast"), "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1024))
            except OSError:
                pass
        result = holdfast("kmeans", data(), "-k", 4, "-o", out, "-q", code=RESOURCES)
        check("No space left" in result.err and out in result.err, str(result))
        check(".holdfast" not in result.err, f"the name of a temporary file\n{result}")
        unchanged(out, before)
        result = holdfast("kmeans", data(), "-k", 4, "--init", "random", "--checkpoint",
                          os.path.join(folder, "c.hfc"), "--every", 1, "--json")
        check("c.hfc" in result.err and "No space left" in result.err.splitlines()[-1], str(result))
        check(loads(result.out)["result"]["checkpoints_failed"] > 1, str(result))
        result = holdfast("predict", data(), "--centroids", os.path.join(out, "centroids.npy"), "-o",
                          os.path.join(out, "labels.npy"), "-q", code=RESOURCES)
        check("No space left" in result.err, str(result))
        unchanged(out, before)
        # room for the labels, none for the distances
        os.remove(os.path.join(folder, "ballast"))
        with open(os.path.join(folder, "ballast"), "wb") as f:
            f.write(bytes(os.statvfs(folder).f_bavail * 4096 - 20000))
        result = holdfast("predict", data(), "--centroids", os.path.join(out, "centroids.npy"), "-o",
                          os.path.join(out, "new.npy"), "--distances", os.path.join(out, "d.npy"), "-q",
                          code=RESOURCES)
        check("No space left" in result.err and "d.npy" in result.err, str(result))
        unchanged(out, before)
    on_small_disk("size=64k", work)


@test
def no_room_for_the_result():
    """It is said before the fit begins; a folder that leads elsewhere is not judged."""
    library, out = preloaded("full_folder"), scratch("no-room")
    few = {"LD_PRELOAD": library, "FULL_ROOM": str(3000 * 4)}
    result = holdfast("kmeans", data(), "-k", 3, "-o", out, code=RESOURCES, env=few)
    check("No space left" in result.err and out in result.err and "with -o" in result.err, str(result))
    check("iteration" not in result.err, f"after the fit\n{result}")
    check(not os.path.exists(out), "made in vain")
    fit(data(), "-k", 3, "--labels-format", "csv", out=out, env=few)
    os.rename(os.path.join(out, "centroids.npy"), scratch("no-room-far.npy"))
    os.symlink(scratch("no-room-far.npy"), os.path.join(out, "centroids.npy"))
    fit(data(), "-k", 3, out=out, env=few)


@test
def result_of_a_full_folder():
    """A fit that is done is written elsewhere when its folder has no room for it."""
    library, out, temporary = preloaded("full_folder"), scratch("filled"), scratch("elsewhere")
    os.mkdir(temporary)
    env = {"LD_PRELOAD": library, "FULL_FOLDER": out, "TMPDIR": temporary}
    for options in ((), ("--scale", "standard"), ("--labels-format", "csv")):
        result = holdfast("kmeans", data(), "-k", 3, "-o", out, "-q", *options, code=RESOURCES, env=env)
        check("No space left" in result.err and not os.path.exists(out), str(result))
        [kept] = [os.path.join(temporary, name) for name in os.listdir(temporary)]
        check(kept in result.err.splitlines()[-1], f"where is it?\n{result}")
        equal(os.stat(kept).st_mode & 0o777, 0o700)
        reference = scratch("filled-reference")
        fit(data(), "-k", 3, *options, out=reference)
        equal(sorted(os.listdir(kept)), sorted(os.listdir(reference)))
        same_files(kept, reference, *(name for name in os.listdir(kept) if name != "report.json"))
        shutil.rmtree(kept)
        shutil.rmtree(reference)
    result = holdfast("kmeans", data(), "-k", 3, "-o", out, "-q", code=RESOURCES,
                      env={**env, "FULL_FOLDER": os.path.dirname(out)})
    check("--checkpoint" in result.err.splitlines()[-1], str(result))
    equal(os.listdir(temporary), [])
    result = holdfast("kmeans", data(), "-k", 3, "-o", out, "-q", code=RESOURCES,
                      env={**env, "TMPDIR": scratch("nowhere")})
    check("nowhere" in result.err and "--checkpoint" in result.err.splitlines()[-1], str(result))


@test
def read_only_file_system():
    def work(folder):
        fit(data(), "-k", 3, out=os.path.join(folder, "out"))
        before = snapshot(os.path.join(folder, "out"))
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        for out in ("out", "new"):
            result = holdfast("kmeans", data(), "-k", 4, "-o", os.path.join(folder, out), "-q", code=FAILED)
            check("Read-only file system" in result.err and folder in result.err, str(result))
        unchanged(os.path.join(folder, "out"), before)
    on_small_disk("size=64k", work)


@test
def unwritable_folder():
    out = scratch("unwritable")
    fit(data(), "-k", 3, out=out)
    before = snapshot(out)
    os.chmod(out, 0o555)
    more = obedient()
    try:
        result = holdfast("kmeans", data(), "-k", 4, "-o", out, "-q", code=FAILED, **more)
        check("Permission denied" in result.err and out in result.err and "iteration" not in result.err,
              str(result))
        holdfast("kmeans", data(), "-k", 4, "-o", out + "/deeper", "-q", code=FAILED, **more)
        result = holdfast("kmeans", data(), "-k", 4, "--init", "random", "--checkpoint", out + "/c.hfc",
                          "--every", 1, "-q", code=FAILED, **more)
        check("c.hfc" in result.err and "Permission denied" in result.err, str(result))
        unchanged(out, before)
    finally:
        os.chmod(out, 0o755)


@test
def a_file_where_the_folder_should_be():
    path = scratch("file")
    with open(path, "w") as f:
        f.write("precious")
    for out in (path, path + "/below"):
        result = holdfast("kmeans", data(), "-k", 3, "-o", out, "-q", code=FAILED)
        check("Not a directory" in result.err or "not a directory" in result.err, str(result))
    equal(content(path), b"precious")


@test
def a_folder_where_a_file_should_be():
    out = scratch("blocked")
    fit(data(), "-k", 3, out=out)
    os.remove(out + "/labels.npy")
    os.mkdir(out + "/labels.npy")
    before = snapshot(out)
    result = holdfast("kmeans", data(), "-k", 4, "-o", out, "-q", code=FAILED)
    check("labels.npy" in result.err and "remove" in result.err, str(result))
    now = snapshot(out)
    equal({name: now[name] for name in before}, before)
    check(os.path.isdir(out + "/labels.npy"), "the folder is gone")


@test
def links_are_followed():
    out, far = scratch("links"), scratch("far")
    os.makedirs(out)
    os.makedirs(far)
    fit(data(), "-k", 3, out=scratch("links-reference"))
    write_npy(far + "/old.npy", [0])
    os.symlink("../far/old.npy", out + "/labels.npy")
    os.symlink(far + "/new.npy", out + "/centroids.npy")  # nothing there yet
    fit(data(), "-k", 3, out=out)
    check(os.path.islink(out + "/labels.npy") and os.path.islink(out + "/centroids.npy"), "links were replaced")
    equal(sorted(os.listdir(far)), ["new.npy", "old.npy"])
    same_files(out, scratch("links-reference"))
    holdfast("predict", data(), "--centroids", out + "/centroids.npy", "-o", out + "/labels.npy", "-q")
    check(os.path.islink(out + "/labels.npy"), "the link was replaced")
    same_files(out, scratch("links-reference"))


def belongs(folder):
    """Names of the files that are those that report.json tells of."""
    files = loads(content(folder + "/report.json").decode())["files"]
    same = []
    for name, about in files.items():
        data_there = content(os.path.join(folder, name))
        if (len(data_there), f"{zlib.crc32(data_there):08x}") == (about["bytes"], about["crc32"]):
            same.append(name)
    equal(sorted(files), sorted(n for n in NAMES if n != "report.json"))
    return sorted(same)


@test
def report_tells_its_files():
    out = scratch("told")
    fit(data(), "-k", 3, out=out)
    equal(belongs(out), ["centroids.npy", "labels.npy"])
    with open(os.path.join(ROOT, "man", "holdfast.1"), encoding="utf-8") as f:  # what the manual says works
        code = re.search(r"python3 \\-c '([^']*)'", f.read()).group(1)
    done = subprocess.run([sys.executable, "-c", code], cwd=out, capture_output=True, text=True, check=True)
    equal(done.stdout, "centroids.npy belongs to this report\nlabels.npy belongs to this report\n")
    equal(loads(holdfast("kmeans", data(), "-k", 3, "--json", "-q").out)["files"], None)


def preloaded(name):
    """A library of support/ that takes the place of functions of the system."""
    path = scratch(name + ".so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support", name + ".c")
    built = subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-o", path, source, "-ldl"],
                           capture_output=True)
    if built.returncode != 0:
        raise Skip("no compiler for a library to preload: " + built.stderr.decode()[:200])
    probe = subprocess.run([HOLDFAST, "--version"], env=environment({"LD_PRELOAD": path}), capture_output=True)
    if probe.returncode != 0:
        raise Skip("a sanitizer does not let another library come first")
    return path


@test
def kill_between_renames():
    """The files appear one by one, the report last: what was killed in between shows in it. The next run
    leaves no trace of that."""
    library = preloaded("kill_at_rename")
    out, first, second = scratch("torn"), scratch("torn-3"), scratch("torn-4")
    fit(data(), "-k", 3, out=first)
    fit(data(), "-k", 4, out=second)
    for number in (1, 2, 3):
        fit(data(), "-k", 3, out=out)
        result = holdfast("kmeans", data(), "-k", 4, "-o", out, "-q", code=-signal.SIGKILL,
                          env={"LD_PRELOAD": library, "KILL_AT": str(number)})
        equal(belongs(out), ["centroids.npy", "labels.npy"][number - 1:], f"kill {number}\n{result}")
        check(len(os.listdir(out)) > 3, "nothing was staged")
        for i, name in enumerate(["centroids.npy", "labels.npy", "report.json"]):
            whose = second if i < number - 1 else first
            if name != "report.json":
                same_files(out, whose, name)
        fit(data(), "-k", 4, out=out)
        equal(sorted(os.listdir(out)), list(NAMES), "leftovers")
        equal(belongs(out), ["centroids.npy", "labels.npy"])


@test
def two_runs_in_one_folder():
    out = scratch("shared")
    process = start("kmeans", CITIES, "-k", 300, "--tol", 0, "--max-iter", 3000, "--skipping", "off", "-o", out)
    while b"iteration 1:" not in process.stderr.readline():
        check(process.poll() is None, "ended")
    result = holdfast("kmeans", data(), "-k", 3, "-o", out, "-q", code=FAILED)
    check("another run" in result.err and out in result.err, str(result))
    equal(os.listdir(out), [], "files")
    process.kill()
    process.communicate()
    fit(data(), "-k", 3, out=out)  # the lock went with the process
    equal(sorted(os.listdir(out)), list(NAMES))


@test
def a_checkpoint_has_a_file_of_its_own():
    out = scratch("own")
    result = holdfast("kmeans", data(), "-k", 4, "-o", out, "--checkpoint", out + "/labels.npy", code=USAGE)
    check("--checkpoint " + out + "/labels.npy" in result.err and not os.path.exists(out), str(result))
    here = {"cwd": scratch()}
    os.makedirs(scratch("afar"), exist_ok=True)
    os.symlink("afar/new.hfc", scratch("link.hfc"))
    for folder, checkpoint in (("own", "./own/labels.npy"), ("./own", "own/report.json"), ("own", "own//centroids.npy"),
                               ("own/", out + "/labels.npy"), ("own2", "own2/../own2/./labels.npy"),
                               ("afar/new/own", "afar/./new//own/labels.npy")):
        for there in (False, True):
            if there:
                os.makedirs(scratch(folder), exist_ok=True)
            result = holdfast("kmeans", data(), "-k", 4, "-o", folder, "--checkpoint", checkpoint, code=USAGE, **here)
            check("--checkpoint " + checkpoint in result.err and "another file" in result.err, str(result))
    os.symlink("../own/labels.npy", scratch("afar/labels.hfc"))  # leads to what is not there yet
    holdfast("kmeans", data(), "-k", 4, "-o", "own", "--checkpoint", "afar/labels.hfc", code=USAGE, **here)
    os.symlink("later", scratch("early"))  # to the folder that is not there yet
    holdfast("kmeans", data(), "-k", 4, "-o", "later", "--checkpoint", "early/labels.npy", code=USAGE, **here)
    for checkpoint in ("labels.npy", "own/other.npy", "afar/labels.npy", "link.hfc"):
        holdfast("kmeans", data(), "-k", 4, "-q", "-o", "own", "--checkpoint", checkpoint, **here)


@test
def no_checkpoint_that_was_not_asked_for():
    """Where it would go does not even have to be writable."""
    out = scratch("unasked")
    os.makedirs(out + "/checkpoint.hfc")
    fit(data(), "-k", 4, out=out)
    check_result(out, ROWS)


@test
def checkpoint_place_is_tried_first():
    result = holdfast("kmeans", data(), "-k", 3, "--checkpoint", scratch("no/such/c.hfc"), code=FAILED)
    check("no/such/c.hfc" in result.err and "iteration" not in result.err, str(result))


@test
def full_standard_output():
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full here")
    for args in (["kmeans", data(), "-k", "3", "--json", "-q"], ["kmeans", data(), "-k", "3"], ["--help"],
                 ["kmeans", "--help"], ["info"], ["info", "--json"], ["--version"]):
        with open("/dev/full", "wb") as full:
            result = holdfast(*args, code=RESOURCES, stdout=full)
        equal(result.err.count("standard output could not be written: No space left"), 1, str(result))


@test
def closed_standard_output():
    out = scratch("closed")
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", HOLDFAST, "kmeans", data(), "-k", "3",
                           "-q", "-o", out], capture_output=True)
    equal(done.returncode, DONE, done.stderr)
    reference = scratch("open")
    fit(data(), "-k", 3, out=reference)
    same_files(out, reference)
    for args in (["--help"], ["--version"], ["kmeans", "--help"], ["kmeans", "--usage"], ["info"], ["info", "--json"],
                 ["kmeans", data(), "-k", "3", "--json", "-q"]):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", HOLDFAST, *args], capture_output=True)
        equal((done.returncode, done.stderr.count(b"standard output could not be written")), (FAILED, 1), args)


@test
def readers_that_go_away():
    """Progress is dropped and the fit goes on; a result that cannot be printed is a failure."""
    reference, out = scratch("read"), scratch("unread")
    fit(CITIES, "-k", 5, "--max-iter", 5, out=reference)
    args = ["kmeans", CITIES, "-k", "5", "--max-iter", "5"]
    default = {"preexec_fn": lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)}  # as a shell starts programs
    gone = subprocess.Popen([HOLDFAST, *args, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env=environment(), **default)
    gone.stderr.close()
    equal(gone.wait(timeout=120), DONE)
    same_files(reference, out)
    for more in (["--json", "-q", "-o", out], ["--json", "-q"], ["-o", out],
                 ["--json", "-q", "--tol", "0", "--max-iter", "90"]):  # the last is more than a buffer
        gone = subprocess.Popen([HOLDFAST, *args, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(), **default)
        gone.stdout.close()
        err = gone.stderr.read()
        equal(gone.wait(timeout=120), FAILED, err)
        equal(err.count(b"standard output could not be written: Broken pipe"), 1, err)
    same_files(reference, out)


@test
def closed_streams_do_not_become_files():
    """What is printed must not end up in a file that got the number of a stream."""
    reference = scratch("streams-open")
    fit(CITIES, "-k", 5, "--max-iter", 5, out=reference)
    for closed in ("2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        out = scratch("streams" + str(len(closed)))
        done = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh", HOLDFAST, "kmeans", CITIES, "-k", "5",
                               "--max-iter", "5", "-o", out, "--checkpoint", out + ".hfc", "--every", "1"],
                              stdout=subprocess.DEVNULL)
        check(done.returncode in (DONE, FAILED), closed)
        same_files(out, reference)
        check(content(out + ".hfc")[:8] == b"HFKMCKPT", "checkpoint")


@test
def files_are_written_even_if_the_report_cannot_be_printed():
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full here")
    out = scratch("half")
    with open("/dev/full", "wb") as full:
        holdfast("kmeans", data(), "-k", "3", "--json", "-q", "-o", out, code=RESOURCES, stdout=full)
    check_result(out, ROWS)


if __name__ == "__main__":
    main()
