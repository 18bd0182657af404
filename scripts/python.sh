#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python.sh [all]: build the wheel of the Python package, install it into a fresh environment and run
# the tests there, with no compiler on the path. `all` runs scikit-learn's own tests of k-means on it
# too, as HF_PYTHON_TESTS=all does. HF_CUDA=OFF leaves kernels for GPUs out. Needs the package index;
# without it all is skipped.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/python
venv=$out/venv
mkdir -p "$out"

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    skip "there is no python3 of version 3.10 or later with venv and ensurepip"
rm -rf "$venv" "$out/wheel"
python3 -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check -q "$@"; }
pip download --no-deps -d "$out/probe" scikit-build-core >/dev/null 2>&1 ||
    skip "the package index cannot be reached"

pip wheel "$root" --no-deps -w "$out/wheel" -C build-dir="$out/build" \
    -C cmake.define.HF_CUDA="${HF_CUDA:-AUTO}" -C cmake.define.HF_WERROR=ON
wheel=$(ls "$out"/wheel/*.whl)
pip install numpy scikit-learn pandas pyarrow ml_dtypes matplotlib tqdm pytest pytest-timeout ||
    skip "the package index does not give what the tests need"
pip install pyamg >/dev/null 2>&1 || echo "pyamg cannot be had: its test is skipped"
pip install "$wheel"

# From elsewhere, so that the package is the one installed.
cd "$out"
clean() {
    env -u PYTHONPATH -u HOLDFAST_LIBRARY PATH="$venv/bin" MPLBACKEND=Agg LOKY_MAX_CPU_COUNT=2 "$@"
}
clean "$venv/bin/python" -c "import holdfast, sys; assert holdfast.__file__.startswith(sys.prefix)"
status=0
pytest() {
    clean "$venv/bin/python" -m pytest -p no:cacheprovider --timeout 300 -c "$root/pyproject.toml" \
        "$@" >>"$out/tests.log" 2>&1 || status=1
}
: >"$out/tests.log"
pytest "$root/python/tests"
# torch_op is for those who have torch, which is not in this environment
pytest --doctest-modules "$venv"/lib/python*/site-packages/holdfast --ignore-glob='*/torch_op.py'
if [ "${1:-${HF_PYTHON_TESTS:-}}" = all ]; then
    clean "$venv/bin/python" "$root/python/tests/sklearn_suite.py" >>"$out/tests.log" 2>&1 || status=1
fi
[ "$status" = 0 ] || cat "$out/tests.log"
echo "$wheel: $(stat -c %s "$wheel") bytes"
# shellcheck disable=SC2016 # awk's own variables
awk '/ in [0-9.]+s/ {
    for (i = 2; i <= NF; i++) {
        if ($i ~ /^passed/) p += $(i - 1)
        if ($i ~ /^(failed|error)/) f += $(i - 1)
        if ($i ~ /^skipped/) s += $(i - 1)
    }
} END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' "$out/tests.log"
exit "$status"
