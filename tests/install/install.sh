#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD SOURCE : install into a fresh prefix, build the program of the README against it in
# the three ways users have, and run it; then move the prefix and do so again.
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
passed=0
unset LD_LIBRARY_PATH

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

# The README quotes examples/kmeans.c, so that what it shows is what is tested here.
check_readme() {
    [ -e "$source/README.md" ] || return 0
    awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" \
        >"$work/quoted.c"
    # The comment on top (licence, how to compile) is not quoted.
    sed '1,/\*\/$/d' "$source/examples/kmeans.c" >"$work/expected.c"
    diff "$work/expected.c" "$work/quoted.c" ||
        fail "the first C block of README.md differs from examples/kmeans.c"
    # And so is how to compile it for a prefix that the loader does not know.
    # shellcheck disable=SC2016 # to be found as it stands
    grep -qF 'cc kmeans.c $(pkg-config --cflags --libs holdfast) -Wl,-rpath,$(pkg-config --variable=libdir holdfast)' \
        "$source/README.md" || fail "README.md does not show how to compile for a private prefix"
    passed=$((passed + 1))
}

check_run() {
    "$1" >"$work/output" || fail "$1 failed"
    cat "$work/output"
    grep -q 'no label changed\|moved less than tol' "$work/output" || fail "no result printed"
    # Neighbours together, the two pairs apart.
    awk '/is in cluster/ { c[n++] = $NF } END { exit !(n == 4 && c[0] == c[1] && c[2] == c[3] &&
        c[0] != c[2]) }' "$work/output" || fail "wrong clusters"
    passed=$((passed + 1))
}

use_pkg_config() {
    local pc
    pc=$(dirname "$(find "$prefix" -name holdfast.pc)")
    export PKG_CONFIG_PATH=$pc
    # shellcheck disable=SC2046 # flags are words
    ${CC:-cc} "$source/examples/kmeans.c" -o "$work/by_pkg_config" \
        $(pkg-config --cflags --libs holdfast) -Wl,-rpath,$(pkg-config --variable=libdir holdfast)
    check_run "$work/by_pkg_config" # as the README says: the loader's own path has no part in it
    # shellcheck disable=SC2046
    ${CC:-cc} "$source/examples/kmeans.c" -o "$work/static" $(pkg-config --cflags holdfast) \
        "$(pkg-config --variable=libdir holdfast)/libholdfast.a" \
        $(pkg-config --static --libs holdfast | sed 's/-lholdfast//')
    check_run "$work/static"
}

use_cmake() {
    rm -rf "$work/app"
    mkdir -p "$work/app"
    cp "$source/examples/kmeans.c" "$work/app/"
    cat >"$work/app/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(app LANGUAGES C)
find_package(holdfast 0.1 REQUIRED)
add_executable(app kmeans.c)
target_link_libraries(app PRIVATE holdfast::holdfast)
add_executable(app_static kmeans.c)
target_link_libraries(app_static PRIVATE holdfast::holdfast_static)
END
    cmake -S "$work/app" -B "$work/app/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" &&
        cmake --build "$work/app/build" >>"$work/log" || {
        cat "$work/log"
        fail "find_package(holdfast) does not work"
    }
    check_run "$work/app/build/app"
    check_run "$work/app/build/app_static"
}

check_readme
cmake --install "$build" --prefix "$prefix" >"$work/log"
for file in bin/holdfast share/man/man1/holdfast.1 share/bash-completion/completions/holdfast \
    share/doc/holdfast/LICENSE share/doc/holdfast/NOTICE share/holdfast/tuning/h200.tune include/holdfast/holdfast.h; do
    [ -e "$prefix/$file" ] || fail "$file was not installed"
done
grep -q "loader does not look into $prefix/.*-Wl,-rpath" "$work/log" || [ -z "$(command -v ldconfig)" ] ||
    fail "the installation does not say that the loader will not find the library"
if grep -E '^-- (Installing|Up-to-date): ' "$work/log" | grep -vF ": $prefix/"; then
    fail "files were installed outside the prefix"
fi
! ls "$prefix"/include/holdfast/dev*.h 2> /dev/null || fail "dev.h was installed"
[ -z "$(find "$prefix" -name '*dev*')" ] || fail "the development library was installed"
readelf -d "$(find "$prefix" -name 'libholdfast.so')" |
    grep -q 'SONAME.*libholdfast\.so\.\([1-9][0-9]*\|0\.[0-9]*\)\]' ||
    fail "the SONAME of the shared library does not change with the ABI"
"$prefix/bin/holdfast" --version
use_pkg_config
use_cmake
mv "$prefix" "$work/moved"
prefix=$work/moved
use_pkg_config
use_cmake
echo "$passed passed, 0 failed, 0 skipped"
