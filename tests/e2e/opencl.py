# SPDX-License-Identifier: Apache-2.0
"""The command on an OpenCL device writes the bytes that it writes on the CPU, and says what is wrong with
devices, caches and memory. Skipped where there is no platform."""
import fcntl
import glob
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DIGITS, FAILED, INPUT, RESOURCES, SIFT, USAGE, Skip, check, content, equal, fit,  # noqa: E402
                 holdfast, loads, main, on_small_disk, same_files, scratch, start, test)

NONE = {"OCL_ICD_VENDORS": "/nonexistent"}


def need_device():
    devices = loads(holdfast("info", "--json").out)["devices"]
    ours = [d for d in devices if d["name"].startswith("opencl")]
    if not any(d["available"] for d in ours):
        raise Skip("; ".join(d["text"] for d in ours))
    return [d for d in ours if d["available"]][0]


def both(data, *args):
    """Reports of the same fit on the CPU and with OpenCL; their files are equal."""
    cpu, cl = scratch("cpu"), scratch("cl")
    reports = [fit(data, *args, "--device", d, out=o) for d, o in (("cpu", cpu), ("opencl", cl))]
    same_files(cpu, cl)
    equal(*[r["result"] for r in reports], what="results")
    return reports


@test
def same_bytes():
    need_device()
    reports = both(SIFT, "-k", 20, "--max-iter", 6)
    equal([r["options"]["device"] for r in reports], ["cpu", "opencl:0"])
    both(DIGITS, "-k", 12, "--metric", "cosine", "--init", "kmeans-parallel", "--max-iter", 5)
    both(CITIES, "-k", 40, "--max-iter", 5, "--n-init", 2, "--empty", "split")


@test
def predictions():
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 4, "--device", "cpu", out=scratch("fitted"))
    for verb in ("predict", "transform"):
        for device in ("cpu", "opencl"):
            holdfast(verb, SIFT, "--from", scratch("fitted"), "--device", device, "-o",
                     scratch(f"{verb}-{device}.npy"))
        equal(content(scratch(f"{verb}-cpu.npy")), content(scratch(f"{verb}-opencl.npy")), what=verb)


@test
def streamed_and_resumed():
    """With less memory than the rows need they pass through the device; a checkpoint moves to the CPU."""
    need_device()
    args = [SIFT, "-k", 10, "--tol", 0, "--max-iter", 8]
    whole, part, end, less = scratch("whole"), scratch("part"), scratch("end"), scratch("less")
    fit(*args, "--device", "cpu", out=whole)
    memory = fit(*args, "--device", "opencl", "--memory", "1500K", out=less)["memory"]
    same_files(whole, less)
    check(memory["workspace_bytes"] < 1_500_000, f"a second buffer for rows that are read: {memory}")
    checkpoint = scratch("half.hfc")
    fit(*args[:-1], 3, "--device", "opencl", "--checkpoint", checkpoint, "--every", 1, out=part)
    fit(*args, "--device", "cpu", "--resume", checkpoint, out=end)
    same_files(whole, end)


@test
def names():
    device = need_device()
    word = device["text"].split()[0]
    for name in ("opencl:0", "opencl:" + word, "opencl:" + word.upper()):
        equal(fit(DIGITS, "-k", 3, "--max-iter", 2, "--device", name)["options"]["device"], "opencl:0")
    for name in ("opencl:no such device", "opencl:", "openclx"):
        result = holdfast("kmeans", DIGITS, "-k", 3, "--device", name, code=USAGE)
        check("no device is called" in result.err, result)
    result = holdfast("kmeans", DIGITS, "-k", 3, "--device", "opencl:99", code=RESOURCES)
    check("numbered from 0" in result.err, result)


@test
def no_platform():
    result = holdfast("kmeans", DIGITS, "-k", 3, "--device", "opencl", code=RESOURCES, env=NONE)
    check("opencl" in result.err and ("finds no platform" in result.err or "no OpenCL loader" in result.err),
          result)
    devices = loads(holdfast("info", "--json", env=NONE).out)["devices"]
    equal([d["available"] for d in devices if d["name"].startswith("opencl")], [False])
    named = holdfast("kmeans", DIGITS, "-k", 3, "--device", "opencl:nvidia", code=RESOURCES, env=NONE)
    equal(named.err.split(": ", 2)[2], result.err.split(": ", 2)[2], what="reasons")
    fit(DIGITS, "-k", 3, "--max-iter", 2, env=NONE)  # auto goes on with the CPU


@test
def less_than_others_have():
    """Without float64, 64-bit atomics and a fused multiply-add results are the same; a device whose float32 has no
    denormals is refused."""
    need_device()
    cpu, cl = scratch("cpu"), scratch("cl")
    args = [DIGITS, "-k", 12, "--max-iter", 3]
    fit(*args, "--device", "cpu", out=cpu)
    fit(*args, "--device", "opencl", out=cl, env={"HF_OPENCL_WITHOUT": "fp64,atomics64,fma"})
    same_files(cpu, cl)
    info = holdfast("info", env={"HF_OPENCL_WITHOUT": "fp64"})
    check("without fp64: software float64" in info.out, info)
    result = holdfast("kmeans", *args, "--device", "opencl", code=RESOURCES,
                      env={"HF_OPENCL_WITHOUT": "atomics64,denormals"})
    check("it lacks denormals in float32" in result.err, result)


@test
def settings_that_mean_nothing():
    """A misspelt word is refused where OpenCL is asked for, and says what there is."""
    args = ["kmeans", DIGITS, "-k", 3, "--max-iter", 2, "--device"]
    for name, text, word, known in (("HF_OPENCL_WITHOUT", "fma,atomic64", "atomic64", "fp64,atomics64,fma,denormals"),
                                    ("HF_OPENCL_WITHOUT", "FP64", "FP64", "fp64,"),
                                    ("HF_OPENCL_MATRIX", "2", "2", "0,1,mma,dpas")):
        for device in ("opencl", "opencl:portable"):
            result = holdfast(*args, device, code=RESOURCES, env={name: text})
            check(f"{name} has the word '{word}'; it may have {known}" in result.err, result)
        check(f"'{word}'" in holdfast("info", env={name: text}).out, "info does not say it")
        holdfast(*args, "cpu", env={name: text})
    need_device()
    for name, text in (("HF_OPENCL_WITHOUT", ""), ("HF_OPENCL_WITHOUT", "fma,"), ("HF_OPENCL_MATRIX", "0")):
        holdfast(*args, "opencl", env={name: text})


@test
def library_by_name():
    """A driver's own library serves without a loader; what is neither is named."""
    need_device()
    driver = {"HF_OPENCL_LIBRARY": "libpocl.so.2"}
    ours = [d for d in loads(holdfast("info", "--json", env=driver).out)["devices"] if d["name"] == "opencl:0"][0]
    if "cannot be opened" not in ours["text"]:
        check(ours["available"], ours)
        cpu, cl = scratch("cpu"), scratch("cl")
        fit(DIGITS, "-k", 5, "--max-iter", 3, "--device", "cpu", out=cpu)
        fit(DIGITS, "-k", 5, "--max-iter", 3, "--device", "opencl", out=cl, env=driver)
        same_files(cpu, cl)
    for name, words in (("libm.so.6", "neither an OpenCL loader"), ("no-such.so", "cannot be opened: no-such.so")):
        result = holdfast("kmeans", DIGITS, "-k", 3, "--device", "opencl", code=RESOURCES,
                          env={"HF_OPENCL_LIBRARY": name})
        check(words in result.err, result)


@test
def what_portability_costs():
    """Both sets on every backend that is here: the same labels, all files, merits between 0 and 1."""
    need_device()
    name = scratch("study")
    out = holdfast("bench", "portability", "--scale", 0.0008, "-k", "2,9", "--rounds", 1, "--steps", 2, "--slice", 1000,
                   "--no-sweeps", "-t", 1, "-o", name).out
    check("Phi of {" in out, out)
    report = loads(content(name + ".json").decode())
    rows = report["rows"]
    equal(sorted({(r["set"], r["k"]) for r in rows}), [(s, k) for s in ("census", "uniform") for k in (2, 9)])
    codes = {r["code"] for r in rows}
    check({"c", "opencl-tuned", "opencl-untuned", "opencl-port"} <= codes, codes)
    equal([r["labels_differ"] for r in rows if r["code"] != "opencl-port" and r["labels_differ"]], [])
    for r in rows:
        check(0 < r["application"] <= 1 and r["assign_s"] > 0 and r["iteration_s"] > 0, r)
    check(all(0 < p["application"] <= 1 for p in report["phi"] if p["platforms"] == "CPU"), report["phi"])
    equal(len(content(name + ".tsv").decode().splitlines()), 1 + len(rows))
    check("The study's own figures" in content(name + ".md").decode(), "no figures of the study")
    for ending in ("uniform", "census", "split-uniform", "split-census"):
        check(content(f"{name}-{ending}.svg").decode().endswith("</svg>\n"), ending)
    for words, said in ((["-k", "0"], "-k"), (["--sets", "iris"], "iris"), (["-k", ""], "empty list"),
                        (["--scale", "0"], "--scale"), (["--platforms", "tpu"], "tpu"), (["--limit", "0"], "--limit")):
        result = holdfast("bench", "portability", *words, code=USAGE)
        check(said in result.err, result)
    result = holdfast("bench", "portability", "-o", scratch("none") + "/x/y", code=None)
    check(result.code != 0 and "cannot be written" in result.err, result)


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@test
def studies_of_two_machines():
    """Rows of a GPU that another run wrote join those of this CPU; a table that does not fit is refused."""
    need_device()
    name, other = scratch("study"), scratch("other.tsv")
    few = ["bench", "portability", "--scale", 0.0008, "-k", 2, "--sets", "census", "--rounds", 1, "--steps", 2,
           "--slice", 1000, "--no-sweeps", "--no-port", "--platforms", "cpu", "-t", 1, "-o", name]
    holdfast(*few)
    table = content(name + ".tsv").decode()
    gpu = table.replace("\tCPU\t", "\tGPU\t").replace("\tc\t", "\tcuda\t")
    write(other, gpu)
    out = holdfast(*few, "--with", other).out
    check("Phi of {CPU, GPU}" in out, out)
    rows = loads(content(name + ".json").decode())["rows"]
    both = [(code, platform) for code in ("opencl-tuned", "opencl-untuned") for platform in ("CPU", "GPU")]
    equal(sorted((r["code"], r["platform"]) for r in rows), sorted([("c", "CPU"), ("cuda", "GPU"), *both]))
    head, line = gpu.splitlines()[0], gpu.splitlines()[1].split("\t")
    for text, said in ((table, "platform that this run measures"), ("", "has no rows"), ("x\n", "line 1 is no row"),
                       (head.replace("kernel", "core") + "\n", "line 1 is no heading"),
                       ("\n".join([head, "\t".join(line[:1] + ["7"] + line[2:])]), "line 2 is of another --scale"),
                       ("\n".join([head, "\t".join(["iris"] + line[1:])]), "line 2 names a set"),
                       ("\n".join([head, "\t".join(line[:-2] + ["0123456789abcdef", line[-1]])]),
                        "line 2 has other labels")):
        write(other, text)
        result = holdfast(*few, "--with", other, code=INPUT)
        check(said in result.err, (said, result))
    result = holdfast(*few, "--with", scratch("none.tsv"), code=INPUT)
    check("cannot be read" in result.err, result)


@test
def what_devices_have():
    text = need_device()["text"]
    for word in ("units", "GiB", "fp64", "64-bit atomics", "sub-groups", "matrix"):
        check(word in text, text)


def failing_driver():
    """PoCL as a driver that fails when it is told to."""
    need_device()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support", "failing_opencl.c")
    library = scratch("failing.so")
    done = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"])
    if done.returncode != 0:
        raise Skip("no C compiler")
    text = [d["text"] for d in loads(holdfast("info", "--json", env={"HF_OPENCL_LIBRARY": library}).out)["devices"]
            if d["name"] == "opencl:0"][0]
    if "Portable" not in text:
        raise Skip(f"libpocl.so.2 cannot be used by itself: {text}")
    return library


@test
def a_device_that_is_lost():
    """In the middle of a fit: the error says so, and the last checkpoint goes on elsewhere."""
    library = failing_driver()
    args = [SIFT, "-k", 10, "--tol", 0, "--max-iter", 8]
    whole, end, checkpoint = scratch("whole"), scratch("end"), scratch("lost.hfc")
    fit(*args, "--device", "cpu", out=whole)
    for at in (1, 40, 180):
        result = holdfast("kmeans", *args, "--device", "opencl", "--checkpoint", checkpoint, "--every", 1,
                          code=FAILED, env={"HF_OPENCL_LIBRARY": library, "LOSE_AT": str(at)})
        check("CL_OUT_OF_RESOURCES" in result.err, result)
    check(os.path.exists(checkpoint), "no checkpoint is left")
    fit(*args, "--device", "cpu", "--resume", checkpoint, out=end)
    same_files(whole, end)


@test
def a_device_without_memory():
    """Wherever memory ends, the message says so, and the last checkpoint goes on elsewhere."""
    library = failing_driver()
    args = [SIFT, "-k", 10, "--tol", 0, "--max-iter", 8]
    whole, end, checkpoint = scratch("whole"), scratch("end"), scratch("full.hfc")
    fit(*args, "--device", "cpu", out=whole)
    for at in (1, 2, 9, 40, 55):
        result = holdfast("kmeans", *args, "--device", "opencl", "--checkpoint", checkpoint, "--every", 1,
                          code=RESOURCES, env={"HF_OPENCL_LIBRARY": library, "NO_MEMORY_AT": str(at)})
        check("memory" in result.err, result)
    fit(*args, "--device", "cpu", "--resume", checkpoint, out=end)
    same_files(whole, end)


@test
def a_driver_that_dies():
    """One process dies, then a child of the next, which refuses the driver; so does a third. Where there is no program
    that compiles for us a second one dies."""
    library = failing_driver()
    cache = scratch("dead")
    env = {"HF_OPENCL_LIBRARY": library, "HF_OPENCL_CACHE": cache, "CRASH_AT": "1"}
    args = ["kmeans", DIGITS, "-k", 3, "--max-iter", 2, "--device", "opencl"]
    for code in (-6, FAILED, FAILED):
        result = holdfast(*args, code=code, env=env)
    check("crashed twice" in result.err, result)
    alone = dict(env, HF_OPENCL_COMPILER="", HF_OPENCL_CACHE=scratch("alone"))
    for code in (-6, -6, FAILED):
        result = holdfast(*args, code=code, env=alone)
    check("crashed twice" in result.err, result)
    holdfast(*args, env=dict(env, CRASH_AT="0", HF_OPENCL_CACHE=scratch("well")))


@test
def a_driver_that_dies_of_a_binary():
    """The program that a process died over is compiled anew; where that was not the driver's fault, nothing else
    happens, even if another one dies later. A driver that always dies of binaries gets none any more after two
    processes, until a day has gone by, and info says so."""
    library = failing_driver()
    cache, cpu, cl = scratch("loaded"), scratch("cpu"), scratch("cl")
    env = {"HF_OPENCL_LIBRARY": library, "HF_OPENCL_CACHE": cache}
    args = [DIGITS, "-k", 3, "--max-iter", 2, "--device"]
    fit(*args, "cpu", out=cpu)

    def written(path):
        """A file that replaces another may get the inode of one that went before."""
        return os.stat(path).st_ino, os.stat(path).st_mtime_ns

    def run(crash_at, code=0):
        """Names of the programs that were compiled, and what notes say."""
        before = {f: written(f) for f in glob.glob(os.path.join(cache, "*.bin"))}
        if code:
            holdfast("kmeans", *args, "opencl", code=code, env=dict(env, CRASH_LOAD_AT=str(crash_at)))
        else:
            fit(*args, "opencl", out=cl, env=dict(env, CRASH_LOAD_AT=str(crash_at)))
            same_files(cpu, cl)
        notes = [content(f).decode() for f in glob.glob(os.path.join(cache, "*.loading"))]
        after = {f: written(f) for f in glob.glob(os.path.join(cache, "*.bin"))}
        return [os.path.basename(f) for f in after if before.get(f) != after[f]], notes

    made, notes = run(0)
    check(len(made) >= 3 and notes == [], (made, notes))
    equal(run(0), ([], []), what="the second process")
    _, notes = run(2, code=-6)
    over = notes[0].split()[-1]
    check(over in made and notes == [f"deaths 1 over {over}\n"], notes)
    equal(run(0), ([over], [f"deaths 0 after {over}\n"]), what="the process after the one that died")
    _, notes = run(1, code=-6)
    other = notes[0].split()[-1]
    check(other != over and notes == [f"deaths 1 over {other}\n"], notes)
    equal(run(0), ([other], [f"deaths 0 after {other}\n"]), what="the process after another that died")
    _, notes = run(1, code=-6)
    equal(notes, [f"deaths 2 over {other}\n"], what="the same program again")
    os.remove(glob.glob(os.path.join(cache, "*.loading"))[0])
    equal(run(0), ([], []), what="without the note")
    for deaths in (1, 2):
        _, notes = run(1, code=-6)
        check(notes[0].startswith(f"deaths {deaths} over "), notes)
    for crash_at in (1, 0):
        again, notes = run(crash_at)
        check(sorted(again) == sorted(made) and notes[0].startswith("deaths 2 after "), (again, made, notes))
    note = glob.glob(os.path.join(cache, "*.loading"))[0]
    check(f"until somebody removes {note}" in holdfast("info", env=env).out, note)
    yesterday = os.stat(note).st_mtime - 86401
    os.utime(note, (yesterday, yesterday))
    check(note not in holdfast("info", env=env).out, note)
    equal(run(0), ([], []), what="a day later")


def label(cache, out, code=0, **env):
    return holdfast("predict", SIFT, "--from", scratch("fitted"), "--device", "opencl", "-o", out,
                    env={"HF_OPENCL_CACHE": cache, **env}, code=code)


@test
def damaged_cache():
    """Binaries that are cut, changed, empty or of something else are compiled anew and replaced; a pipe is not read."""
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 2, "--device", "cpu", out=scratch("fitted"))
    cache, good, out = scratch("cache"), scratch("good.npy"), scratch("out.npy")
    label(cache, good)
    files = sorted(glob.glob(os.path.join(cache, "*.bin")))
    check(len(files) >= 3, f"{files}")
    sizes = [os.path.getsize(f) for f in files]
    lot = random.Random(7)
    for number, path in enumerate(files):
        data = bytearray(content(path))
        if number % 3 == 0:
            data = data[:len(data) // 2]
        elif number % 3 == 1:
            data[lot.randrange(len(data))] ^= 0x10
        else:
            data = bytearray()
        with open(path, "wb") as f:
            f.write(data)
    os.rename(files[0], files[0] + ".was")
    os.rename(files[1], files[0])
    os.remove(files[2])
    os.mkfifo(files[2])  # not to be waited for; it stays
    sizes[2] = 0
    label(cache, out)
    equal(content(good), content(out), what="labels")
    equal([os.path.getsize(f) for f in files], sizes, what="sizes of binaries")
    equal(glob.glob(os.path.join(cache, "*.note")), [], what="notes")


@test
def no_cache():
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 2, "--device", "cpu", out=scratch("fitted"))
    with open(scratch("file"), "w"):
        pass
    for cache in ("", scratch("file"), "relative"):  # none, not a folder, not a path that is used
        label(cache, scratch("out.npy"))
    check(not os.path.exists("relative"), "a relative path was used")


@test
def full_disk():
    """What finds no room is not kept, and nothing is kept in parts; the same on a disk that nobody may write to."""
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 2, "--device", "cpu", out=scratch("fitted"))
    good = scratch("good.npy")
    label(scratch("roomy"), good)
    sizes = {os.path.basename(f): os.path.getsize(f) for f in glob.glob(os.path.join(scratch("roomy"), "*"))}
    most = max(sizes.values())

    def work(folder):
        for options in (None, "remount,ro"):
            if options:
                subprocess.run(["mount", "-o", options, folder], check=True)
            label(folder, scratch("out.npy"))
            equal(content(good), content(scratch("out.npy")), what="labels")
            kept = {f: os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)}
            check(len(kept) < len(sizes) and kept.items() <= sizes.items(), f"{kept} of {sizes}")
    on_small_disk(f"size={most // 4096 * 4 - 4}k", work)


@test
def two_processes():
    """Both compile, both write the same files."""
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 2, "--device", "cpu", out=scratch("fitted"))
    cache = scratch("shared")
    os.environ["HF_OPENCL_CACHE"] = cache
    outs = [scratch(f"two-{i}.npy") for i in range(2)]
    both_run = [start("predict", SIFT, "--from", scratch("fitted"), "--device", "opencl", "-o", out)
                for out in outs]
    for process in both_run:
        _, err = process.communicate(timeout=300)
        equal(process.returncode, 0, what=err.decode())
    equal(*map(content, outs), what="labels")
    before = {f: content(f) for f in glob.glob(os.path.join(cache, "*.bin"))}
    label(cache, scratch("third.npy"))
    equal({f: content(f) for f in glob.glob(os.path.join(cache, "*"))}, before, what="files")


@test
def a_compiler_that_crashes():
    """What a process leaves that died while it compiled is known to the next, which tries once more; a note that
    somebody holds is of one that lives."""
    need_device()
    fit(SIFT, "-k", 15, "--max-iter", 2, "--device", "cpu", out=scratch("fitted"))
    cache, out = scratch("crash"), scratch("out.npy")
    label(cache, out)
    path = sorted(glob.glob(os.path.join(cache, "*.bin")))[0]
    note = path + ".note"
    for deaths, code in ((1, 0), (2, FAILED)):
        os.remove(path)
        write(note, f"deaths {deaths} over it\n")
        with open(note, encoding="ascii") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            label(cache, out)
        os.remove(path)
        result = label(cache, out, code=code)
        if code:
            check("crashed twice" in result.err and note in result.err, result)
            os.remove(note)
            label(cache, out)
        else:
            check(not os.path.exists(note), "the note stays")


if __name__ == "__main__":
    main()
