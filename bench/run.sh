#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build holdfast, install its rivals in a throw-away environment, compare. One command:
#   bench/run.sh [--python X] [--build DIR] [options of bench/rivals.py, see --help]
# --python X   use the packages of this interpreter and install nothing (for machines without a network)
# --build DIR  use what is built there and build nothing
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
python=
build=
rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --python) python=${2:?--python needs an interpreter}; shift 2 ;;
    --build) build=$(cd "${2:?--build needs a folder}" && pwd); shift 2 ;;
    -h | --help)
        sed -n '3,6s/^# \{0,1\}//p' "$0"
        exec python3 "$here/rivals.py" --help ;;
    *) rest+=("$1"); shift ;;
    esac
done

if [ -z "$build" ]; then
    build=$root/build/bench
    tools=ON
    pkg-config --exists jansson libpng || {
        tools=OFF
        echo "run.sh: no jansson or libpng: the command is not built, ceilings are not measured" >&2
    }
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DHF_TESTS=OFF -DHF_TOOLS=$tools >/dev/null
    cmake --build "$build" -j "$(nproc)" >/dev/null
fi

if [ -z "$python" ]; then
    venv=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-rivals-XXXXXX")
    trap 'rm -rf "$venv"' EXIT
    python3 -m venv "$venv" || {
        echo "run.sh: python3 -m venv failed: install python3-venv, or give --python" >&2
        exit 1
    }
    python=$venv/bin/python
    for package in numpy threadpoolctl scikit-learn faiss-cpu superkmeans; do
        if ! "$python" -m pip install -q --disable-pip-version-check "$package" 2>"$venv/pip.log"; then
            echo "run.sh: $package cannot be had: $(grep -v '^$' "$venv/pip.log" | tail -n 1)" >&2
        fi
    done
    if ! ldconfig -p | grep -q 'libopenblas\.so\.0' && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get install -y -qq --no-install-recommends libopenblas0-pthread >"$venv/apt.log" 2>&1 ||
            echo "run.sh: OpenBLAS cannot be had: $(tail -n 1 "$venv/apt.log")" >&2
    fi
fi

command=
[ -x "$build/holdfast" ] && command=$build/holdfast
"$python" "$here/rivals.py" --lib "$build/libholdfast.so" --holdfast "$command" ${rest[@]+"${rest[@]}"}
