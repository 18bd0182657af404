# SPDX-License-Identifier: Apache-2.0
"""Outputs appear whole or not at all: full disk, size limits, folders that cannot be written to."""
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (DONE, FAILED, HOLDFAST, RESOURCES, Skip, blobs, check, check_result, content,  # noqa: E402
                 equal, fit, holdfast, main, obedient, same_files, scratch, test, write_npy)

ROWS = blobs(3000, 4, 5, seed=5)
NAMES = ("centroids.npy", "labels.npy", "report.json")


def data():
    path = scratch("data.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


def snapshot(folder):
    return {name: content(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if os.path.isfile(os.path.join(folder, name))}


def unchanged(folder, before):
    """Names and contents, hidden and temporary files included; only a checkpoint may be new."""
    after = [name for name in os.listdir(folder) if name != "checkpoint.hfc"]
    equal(sorted(after), sorted(before), "files in " + folder)
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
    result = holdfast("kmeans", data(), "-k", 4, "-o", fresh, "-q", code=RESOURCES, preexec_fn=limit)
    equal(os.listdir(fresh), ["checkpoint.hfc"])
    # the fit is saved: it ends at once where there is room
    check("--resume " + fresh + "/checkpoint.hfc" in result.err, str(result))
    fit(data(), "-k", 4, "--resume", fresh + "/checkpoint.hfc", out=fresh)
    reference = scratch("limit-reference")
    fit(data(), "-k", 4, out=reference)
    same_files(fresh, reference)
    equal(sorted(os.listdir(fresh)), list(NAMES))


def on_small_disk(options, work):
    """Run work(folder) with a file system of 64 KiB mounted there."""
    folder = scratch("mount")
    os.makedirs(folder, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True)
    if mounted.returncode != 0:
        raise Skip("no file system can be mounted here: " + mounted.stderr.decode().strip())
    try:
        work(folder)
    finally:
        subprocess.run(["umount", folder], check=True)


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
        check("No space left" in result.err, str(result))
        unchanged(out, before)
        result = holdfast("kmeans", data(), "-k", 4, "--init", "random", "--checkpoint",
                          os.path.join(folder, "c.hfc"), "--every", 1, "-q", code=RESOURCES)
        check("c.hfc" in result.err and "No space left" in result.err, str(result))
        result = holdfast("predict", data(), "--centroids", os.path.join(out, "centroids.npy"), "-o",
                          os.path.join(out, "labels.npy"), "-q", code=RESOURCES)
        check("No space left" in result.err, str(result))
        unchanged(out, before)
    on_small_disk("size=64k", work)


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
