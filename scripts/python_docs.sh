#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python_docs.sh FOLDER: pages of the Python package, with pictures made by running the examples. Needs
# the package index. Warnings are errors.
set -eu
cd "$(dirname "$0")/.."
to=$1
mkdir -p "$to"
venv=build/python/docs-venv
python3 -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check -q "$@"; }
pip wheel . --no-deps -w build/python/docs-wheel -C build-dir=build/python/build \
    -C cmake.define.HF_CUDA="${HF_CUDA:-AUTO}"
pip install --force-reinstall --no-deps build/python/docs-wheel/*.whl
pip install numpy matplotlib numpydoc pydata-sphinx-theme scikit-learn sphinx
"$venv/bin/python" -m sphinx -q -W --keep-going -d "$to/.doctrees" docs/python "$to"
echo "$to/index.html"
