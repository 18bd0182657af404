# SPDX-License-Identifier: Apache-2.0
"""Pictures of fits."""

import json
import subprocess
import sys

import numpy as np
import pytest

from holdfast import KMeans, report

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("d", [2, 5, 64])
def test_plot(rows, tmp_path, d):
    km = KMeans(7, random_state=0).fit(rows(500, d))
    figure = report.plot(km, tmp_path / "a.svg")
    assert len(figure.axes) == 5
    assert (tmp_path / "a.svg").stat().st_size > 5000
    report.save(km, tmp_path / "r")
    out = subprocess.run(
        [sys.executable, "-m", "holdfast.report", tmp_path / "r"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not out.stderr
    assert out.stdout.strip() == str(tmp_path / "r" / "report.png")
    assert (tmp_path / "r" / "report.png").read_bytes()[:4] == b"\x89PNG"
    assert np.array_equal(np.load(tmp_path / "r" / "labels.npy"), km.labels_)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("{", "damaged"),
        ("[]", "no report"),
        ('{"history": []}', "no report"),
        ('{"history": [{}], "result": {}, "data": {"rows": 1}}', "another version"),
    ],
)
def test_bad_report(tmp_path, text, words):
    np.save(tmp_path / "centroids.npy", np.zeros((2, 2)))
    if text is not None:
        (tmp_path / "report.json").write_text(text)
    out = subprocess.run(
        [sys.executable, "-m", "holdfast.report", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 1
    assert words in out.stderr
    assert "Traceback" not in out.stderr


def test_unknown_ending(rows, tmp_path):
    report.save(KMeans(2, random_state=0).fit(rows(50, 2)), tmp_path)
    out = subprocess.run(
        [sys.executable, "-m", "holdfast.report", tmp_path, "-o", tmp_path / "x.foo"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 1
    assert "x.foo" in out.stderr
    assert "Traceback" not in out.stderr


def test_report_is_json(rows, tmp_path):
    km = KMeans(3, random_state=0).fit(rows(50, 3))
    report.save(km, tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["history"][-1]["iteration"] == km.n_iter_
    assert sum(saved["result"]["sizes"]) == 50
