#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast inject gemm, diagnose and screen: exit codes, files, planted faults."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import numpy as np

HOLDFAST = os.environ["HOLDFAST"]
CORE = str(min(os.sched_getaffinity(0)))


def run(*words, code=0):
    done = subprocess.run([HOLDFAST, *words], capture_output=True, text=True, timeout=300)
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def inject(folder):
    run("inject", "gemm", "--scheme", "twos_i", "--form", "seq", "--trials", "5", "--sample", "3",
        "--budget", "0", "--every", "5003", "--quiet", "-o", folder)
    report = json.load(open(os.path.join(folder, "report.json")))
    bits = {b["shape"]: b for b in report["schemes"][0]["single_bits"]}
    assert bits["20"]["faults"] == 800 * 32 and abs(bits["20"]["coverage_percent"] - 96.9) < 0.1
    assert bits["80"]["computed_sample"] == 3
    rows = [line.split("\t") for line in open(os.path.join(folder, "coverage.tsv"))]
    assert len(rows) == 7 and len({len(r) for r in rows}) == 1
    assert "twos_i" in open(os.path.join(folder, "report.md")).read()
    run("inject", code=2)
    run("inject", "nothing", code=2)
    for name in ("md5_i", "t+o:crc32"):
        run("inject", "gemm", "--scheme", name, code=2)
    assert "gemm" in run("inject", "--help").stdout


def sixteen_bits(folder):
    """A bit of a 16-bit operand is in its signature, too; there are half as many as in float32."""
    faults = {}
    for name, scheme in (("f32", "t+o"), ("f16", "l+o"), ("bf16", "t+o:fletcher")):
        run("inject", "gemm", "--scheme", scheme, "--type", name, "--budget", "0", "--every", "997", "--quiet", "-o",
            folder)
        (found,) = json.load(open(os.path.join(folder, "report.json")))["gemm"]
        assert found["type"] == name and found["scheme"].startswith(scheme), found
        for s in found["single_bits"]:
            assert s["same_c"] and s["operand_detected"] == s["operand_faults"] > 0, s
            assert s["sum_detected"] == s["sum_faults"] > 0 and s["staged_detected"] == s["staged_faults"], s
            assert all(k["detected"] == k["changed"] for k in s["kinds"].values()), s
        faults[name] = sum(s["operand_faults"] for s in found["single_bits"])
        assert f"shapes, {name}, each chosen bit" in open(os.path.join(folder, "report.md")).read()
    assert faults["f16"] == faults["bf16"] and 1.9 < faults["f32"] / faults["f16"] < 2.1, faults
    run("inject", "gemm", "--type", "f64", code=2)


def inject_interrupted(folder):
    """What is whole by then is written."""
    child = subprocess.Popen([HOLDFAST, "inject", "gemm", "--budget", "0", "--sample", "0", "-o", folder],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told = ""
    while "xor_i" not in told and child.poll() is None:  # the third
        told += child.stderr.read(1)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=100)
    assert child.returncode == 130 and "| xor_e |" in out, (child.returncode, out)
    names = {s["scheme"] for s in json.load(open(os.path.join(folder, "report.json")))["schemes"]}
    assert {"xor_e", "xor_m"} <= names and len(names) < 35, names
    assert run("inject", "gemm", "--device", "opencl", code=None).returncode in (2, 4)  # 4: there is none


def guarded(folder):
    """What the checks of rows and columns leave is within what rounding may do to a row."""
    run("inject", "gemm", "--scheme", "rows+columns", "--budget", "0", "--every", "2", "--quiet", "-o", folder)
    shapes = json.load(open(os.path.join(folder, "report.json")))["rows_and_columns"]
    assert len(shapes) == 6
    for s in shapes:
        assert s["faults"] == 4 * 32 == s["repaired"] + s["left"], s
        assert s["no_result"] == 0 and s["false_alarms"] == 0 and s["repaired"] > 4 * 8, s
    assert all(s["consequential"] == 0 and s["worst_left"] <= 1 for s in shapes)


def periodic():
    assert run("diagnose").stdout.startswith("PASS test 1")
    done = run("diagnose", "--plant", CORE, "--safe-state", "echo state $HOLDFAST_VERDICT",
               "--cores", CORE, code=5)
    assert "state fail" in done.stdout and "FAIL test 1" in done.stdout
    tests = run("diagnose", "--interval", "60", "--tests", "1", "--json").stdout.splitlines()
    assert [json.loads(t)["verdict"] for t in tests] == ["pass"]
    assert "NOT RUN" in run("diagnose", "--cores", "4000", code=6).stdout
    run("diagnose", "--cores", "0-", code=2)
    run("diagnose", "--replicas", "2", code=2)


def redundant(folder):
    a, b, c = (os.path.join(folder, name + ".npy") for name in "abc")
    rng = np.random.default_rng(1)
    np.save(a, rng.integers(-8, 8, (31, 40)).astype(np.float32))
    np.save(b, rng.integers(-8, 8, (40, 23)).astype(np.float32))
    done = run("diagnose", a, b, "--same-core", "--plant", "2", "--json", "-o", c)
    vote = json.loads(done.stdout)
    assert vote["outvoted"] == 2 and vote["majority"] == 2
    assert np.array_equal(np.load(c), np.load(a) @ np.load(b))
    run("diagnose", a, b, "--same-core", "--replicas", "2", "--plant", "0", code=5)
    run("diagnose", a, b, "--same-core", "--replicas", "2", "--plant", "2", code=2)
    assert "exit code 3" in run("diagnose", "--cores", CORE, "--plant", CORE, "--safe-state", "exit 3", code=5).stderr
    run("diagnose", a, b, "--same-core", "-o", os.path.join(folder, "c.csv"), code=2)
    assert "--device is" in run("diagnose", a, b, "--device", "cpu,cpu", code=2).stderr
    assert "no device is called" in run("diagnose", a, b, "--device", "none", code=2).stderr
    done = run("diagnose", a, b, "--same-core", "-o", folder, code=1)
    assert not done.stdout and "folder" in done.stderr
    run("diagnose", a, a, "--same-core", code=3)
    vote = json.loads(run("diagnose", a, b, "--device", "cpu,cpu,cpu", "--plant", "0", "--json").stdout)
    assert vote["outvoted"] == 0 and vote["replicas"][0]["device"] == "cpu"
    run("diagnose", "--device", "cpu,cpu", code=2)
    for kind in (np.int8, np.float16, np.float64):
        np.save(a + ".npy", np.load(a).astype(kind))
        np.save(b + ".npy", np.load(b).astype(kind))
        run("diagnose", a + ".npy", b + ".npy", "--same-core", "--plant", "1", "-o", c)
        got = np.load(c)
        assert got.dtype == (np.int32 if kind is np.int8 else kind)
        assert np.array_equal(got, np.load(a) @ np.load(b)), kind
    assert f"{a} is of f32 and {b}.npy of" in run("diagnose", a, b + ".npy", code=3).stderr


def protected(folder):
    a, b, c = (os.path.join(folder, name + ".npy") for name in "abc")
    plain = json.loads(run("gemm", a, b, "--json", "-q").stdout)
    assert plain["protection"]["signatures"] is None and plain["protection"]["guard"] == "off"
    found = [json.loads(run("gemm", a, b, "--json", "-q", "--guard", "correct", "--sign", sign,
                            "-o", c).stdout)["protection"] for sign in ("t+o", "l+o:fletcher")]
    assert found[0]["lines"] == 31 + 23 and found[0]["confirmed"] == 0
    assert found[0]["signatures"]["checksum"] == "crc32c" and found[1]["signatures"]["level"] == "l+o"
    assert np.array_equal(np.load(c), np.load(a) @ np.load(b))
    run("gemm", a, b, "--json", "--sign", "t+o:md5", code=2)
    run("gemm", a, b, "--json", "--guard", "always", code=2)


def replay(folder):
    data, result = os.path.join(folder, "x.npy"), os.path.join(folder, "fit")
    np.save(data, np.random.default_rng(2).standard_normal((400, 5)).astype(np.float32))
    run("kmeans", data, "-k", "7", "--seed", "3", "--n-init", "2", "-q", "-o", result)
    report = os.path.join(result, "report.json")
    assert "and so are the files" in run("replay", report, "--threads", "1").stdout
    same = json.loads(run("replay", report, "--cores", CORE, "--json").stdout)
    assert same["same"] and same["iterations"] == same["iterations_again"] > 2
    changed = json.load(open(report))
    changed["history"][2]["shift"] *= 1 + 2 ** -52
    other = os.path.join(folder, "other.json")
    json.dump(changed, open(other, "w"))
    assert "iteration 3 is the first" in run("replay", other, code=5).stdout
    changed["history"][2]["shift"] = json.load(open(report))["history"][2]["shift"]
    whole = changed["history"][1]["digest"]["centroids"]
    changed["history"][1]["digest"]["centroids"] = whole[:32] + "0" * 8 + whole[40:]
    json.dump(changed, open(other, "w"))
    found = run("replay", other, code=5).stdout
    assert "iteration 2 is the first" in found and "centroids of clusters 1 to 1" in found, found
    found = json.loads(run("replay", other, "--json", code=5).stdout)
    assert found["first_iteration"] == 2 and found["clusters"] == [1, 1] and found["same_files"]
    changed["history"][1]["digest"]["centroids"] = whole
    changed["history"][0]["digest"]["chain"] = "0" * 16
    json.dump(changed, open(other, "w"))
    assert "iteration 1 is the first that differs, in its chain" in run("replay", other, code=5).stdout
    changed["history"][0]["digest"]["chain"] = json.load(open(report))["history"][0]["digest"]["chain"]
    changed["files"]["labels.npy"]["crc32"] = "00000000"
    json.dump(changed, open(other, "w"))
    assert "the files are not" in run("replay", other, code=5).stdout
    run("replay", data, code=3)
    table = os.path.join(folder, "t.csv")
    with open(table, "w") as f:
        f.write("a,b,c\n" + "".join(f"{i % 7},{-9999 if i == 5 else i * i % 11},{i}\n" for i in range(90)))
    run("kmeans", table, "-k", "4", "--columns", "a,c", "--missing", "-9999", "--scale", "robust", "-q", "-o",
        result)
    assert "and so are the files" in run("replay", report).stdout
    run("kmeans", data, "-k", "7", "--chain", "off", "-q", "-o", result)
    assert json.load(open(report))["history"][0]["digest"] is None
    assert "and so are the files" in run("replay", report).stdout


def replay_refuses(folder):
    """What was not written by this version, or of other data, says nothing of the arithmetic."""
    data, fewer = os.path.join(folder, "-r.npy"), os.path.join(folder, "few.npy")
    rows = np.random.default_rng(4).standard_normal((300, 4)).astype(np.float32)
    np.save(data, rows)
    np.save(fewer, rows[:200])
    subprocess.run([HOLDFAST, "kmeans", "-k", "3", "-q", "-o", "r", "--", "-r.npy"], cwd=folder, check=True)
    report = os.path.join(folder, "r", "report.json")
    subprocess.run([HOLDFAST, "replay", report], cwd=folder, check=True, capture_output=True)
    assert "300 x 4" in run("replay", report, "--data", fewer, code=3).stderr
    np.save(data, rows + np.float32(1))
    said = run("replay", report, "--data", data, "--json", code=3)
    assert "-r.npy holds other numbers" in said.stderr and said.stdout == "", said
    for same in (rows.astype(">f4"), np.asfortranarray(rows)):
        np.save(data, same)
        run("replay", report, "--data", data)
    assert "report.json" in run("replay", os.path.dirname(report), code=3).stderr
    whole = json.load(open(report))
    other = os.path.join(folder, "no-report.json")
    for changed in ({"holdfast": {"command": 5}}, {"data": {}}, {"history": 1},
                    {"holdfast": {"command": "kmeans", "version": "0.0.9"}}):
        json.dump({**whole, **changed}, open(other, "w"))
        run("replay", other, code=3)


def replay_interrupted(folder):
    """The second run ends too, and its folder goes."""
    data, scratch = os.path.join(folder, "i.npy"), os.path.join(folder, "scratch")
    np.save(data, np.random.default_rng(5).standard_normal((40000, 64)).astype(np.float32))
    run("kmeans", data, "-k", "200", "--tol", "0", "--max-iter", "1", "-q", "-o", os.path.join(folder, "i"))
    report = json.load(open(os.path.join(folder, "i", "report.json")))
    report["options"].update(max_iter=100000, skipping="off", precision="exact", guard="off", n_init=1000)
    path = os.path.join(folder, "long.json")
    json.dump(report, open(path, "w"))
    os.mkdir(scratch)
    # While it computes, and in the moment in which its process is made.
    for number, wait in ((signal.SIGINT, 0.2), (signal.SIGTERM, 0.2), *((signal.SIGTERM, i * 5e-6) for i in range(80))):
        child = subprocess.Popen([HOLDFAST, "replay", path], env={**os.environ, "TMPDIR": scratch},
                                 stderr=subprocess.PIPE)
        while not os.listdir(scratch) and child.poll() is None:
            pass
        time.sleep(wait)
        child.send_signal(number)
        assert child.wait(60) == 130, child.stderr.read()
        assert os.listdir(scratch) == []


def replay_product(folder):
    """A product of 130 rows has blocks of 3."""
    a, b = (os.path.join(folder, name + ".npy") for name in ("pa", "pb"))
    rng = np.random.default_rng(3)
    np.save(a, rng.integers(-9, 9, (40, 130)).astype(np.float16))
    np.save(b, rng.integers(-9, 9, (40, 20)).astype(np.float16))
    text = run("gemm", a, b, "--transa", "--alpha", "0.1", "--out-type", "f32", "--json", "-q").stdout
    report = os.path.join(folder, "product.json")
    open(report, "w").write(text)
    assert "all 130 rows" in run("replay", report, "--threads", "1").stdout
    original = np.load(a)
    changed = original.copy()
    changed[3, 77] += 1
    np.save(a, changed)
    said = run("replay", report, code=3)
    assert "pa.npy holds other numbers" in said.stderr and said.stdout == "", said
    unsigned = json.loads(text)
    unsigned["a"]["crc32c"] = None  # as in reports without: a wrong row, whatever made it wrong
    json.dump(unsigned, open(report, "w"))
    found = run("replay", report, code=5).stdout
    assert "rows 75 to 77 of the product" in found and "in 1 of 44 blocks" in found, found
    assert json.loads(run("replay", report, "--json", code=5).stdout)["rows"] == [75, 77]
    forged = json.loads(text)
    assert len(forged["blocks"]["chain"]) == 44
    np.save(a, original)
    forged["blocks"]["chain"][9] = "00000000"
    json.dump(forged, open(report, "w"))
    assert "rows 27 to 29" in run("replay", report, code=5).stdout
    forged["arithmetic"] = "by hand"
    json.dump(forged, open(report, "w"))
    assert "nothing was compared" in run("replay", report, code=6).stderr
    run("replay", report, "--data", a, code=2)
    run("replay", code=2)


def screen():
    """On a machine that is busy with other tests a second may not be enough for all kernels: code 6."""
    words = ("screen", "--op", "gemm_es", "--busy-ok", "--format", "json", "-q", "--seconds")
    for seconds in ("1", "4", "16"):
        done = subprocess.run([HOLDFAST, *words, seconds], capture_output=True, text=True, timeout=300)
        if done.returncode != 6:
            break
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = json.loads(done.stdout)
    assert found["wrong"] == 0 and found["not_run"] == 0 and found["right"] > 0
    done = run("screen", "--seconds", "1", "--op", "gemm_es", "--format", "tap", "--plant", CORE, "-q",
               code=5)
    lines = done.stdout.splitlines()
    wrong = [lines[i - 2] for i, s in enumerate(lines) if s == "  verdict: wrong"]
    assert lines[0] == "TAP version 13" and wrong
    assert all(s.startswith("not ok") and s.endswith(f"on core {CORE}") for s in wrong)
    assert any(s.startswith("1..") for s in lines)
    run("screen", "--level", "endless", code=2)
    for plant in ("30000", CORE + ":no_such_kernel"):
        assert "--plant" in run("screen", "--seconds", "1", "--plant", plant, code=2).stderr
    assert "no device" in run("screen", "--device", "none", code=2).stderr


def script(path, lines):
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + lines)
    os.chmod(path, 0o755)


def examples(folder):
    """The prolog drains for every exit code but 0; units and the pod are what their programs read."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "safety")
    script(os.path.join(folder, "holdfast"), 'echo "$@"\nexit $CODE\n')
    script(os.path.join(folder, "scontrol"), 'echo "$@"\n')
    log = os.path.join(folder, "log")
    for code, why in ((0, None), (5, "wrong answers"), (6, "not all was tested"), (139, "could not be made")):
        env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], CODE=str(code), HOLDFAST_LOG=log,
                   SLURMD_NODENAME="n7")
        done = subprocess.run([os.path.join(here, "slurm-prolog.sh")], env=env, capture_output=True, text=True)
        assert done.returncode == (1 if why else 0), (code, done)
        assert (why in done.stdout and "nodename=n7 state=drain" in done.stdout) if why else not done.stdout
    words = open(log).read().split()
    try:
        import yaml
        pod = yaml.safe_load(open(os.path.join(here, "kubernetes-init.yaml")))["spec"]["initContainers"][0]
        assert pod["command"][0] == "holdfast"
        for said in (words, pod["command"][1:]):
            run(*said, "--seconds", "0.1", "--help")
    except ImportError:
        print("skipped: the pod needs PyYAML to be read")
    if not shutil.which("systemd-analyze"):
        print("skipped: units need systemd-analyze")
        return
    for name in ("holdfast-diagnose.service", "holdfast-diagnose.timer"):
        text = open(os.path.join(here, name)).read().replace("/usr/local/bin/holdfast", HOLDFAST)
        open(os.path.join(folder, name), "w").write(text)
    open(os.path.join(folder, "safe-state.service"), "w").write("[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(["systemd-analyze", "verify", os.path.join(folder, "holdfast-diagnose.timer")],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "holdfast-diagnose" not in done.stderr, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        inject(os.path.join(folder, "campaign"))
        sixteen_bits(os.path.join(folder, "types"))
        inject_interrupted(os.path.join(folder, "part"))
        guarded(os.path.join(folder, "guarded"))
        redundant(folder)
        protected(folder)
        replay(folder)
        replay_product(folder)
        replay_refuses(folder)
        replay_interrupted(folder)
        examples(folder)
    periodic()
    screen()


main()
