#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh build|test|docs|all [--list]
# Install what is missing of the packages that building (test, docs) needs: Debian 12, Ubuntu 24.04 and
# their like. Does nothing, and needs no network, when all is there. --list prints what is missing.
set -eu

# package  probe: c:COMMAND found in PATH, h:HEADER found, l:FILE found below /usr/lib, f:FILE, p:MODULE that some
# python3 can import
build_packages="
gcc c:gcc
libc6-dev h:stdio.h
cmake c:cmake
ninja-build c:ninja
pkgconf c:pkg-config
zlib1g-dev h:zlib.h
libpng-dev h:png.h
libjansson-dev h:jansson.h"
test_packages="
libcmocka-dev h:cmocka.h
libmetis-dev h:metis.h
python3 c:python3
python3-numpy p:numpy
python3-venv p:ensurepip
g++ c:g++
clang c:clang
clang-format-14 c:clang-format-14
clang-tidy-14 c:clang-tidy-14
binutils c:objdump
libblas-test l:blas/xblat3d
ocl-icd-libopencl1 l:libOpenCL.so.1
pocl-opencl-icd f:/etc/OpenCL/vendors/pocl.icd
opencl-c-headers h:CL/cl.h
oclgrind f:/usr/lib/oclgrind/liboclgrind-rt-icd.so
libpetsc-real-dev h:petsc"
docs_packages="
doxygen c:doxygen"

# Is it there? Whoever has built a package from source has it too, so look for the thing itself.
present() {
    case $1 in
    c:*) command -v "${1#c:}" >/dev/null 2>&1 ;;
    h:*)
        for folder in /usr/include /usr/include/*-linux-gnu* /usr/local/include; do
            [ -e "$folder/${1#h:}" ] && return 0
        done
        return 1
        ;;
    l:*)
        for folder in /usr/lib /usr/lib/*-linux-gnu*; do
            [ -e "$folder/${1#l:}" ] && return 0
        done
        return 1
        ;;
    f:*) [ -e "${1#f:}" ] ;;
    p:*)
        for python in python3 /usr/bin/python3; do
            "$python" -c "import ${1#p:}" 2>/dev/null && return 0
        done
        return 1
        ;;
    esac
}

missing_of() {
    echo "$1" | while read -r package probe; do
        [ -z "$package" ] || present "$probe" || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

case ${1:-} in
build) packages=$build_packages ;;
test) packages="$build_packages$test_packages$docs_packages" ;;
docs) packages="$build_packages$docs_packages" ;;
all) packages="$build_packages$test_packages$docs_packages" ;;
*)
    echo "usage: deps.sh build|test|docs|all [--list]" >&2
    exit 2
    ;;
esac
missing=$(missing_of "$packages")
missing=${missing% }
if [ "${2:-}" = --list ]; then
    echo "$missing"
    exit 0
fi
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps.sh: there is no apt-get here. Please install what these Debian packages hold: $missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
    echo "deps.sh: neither root nor sudo. Please have someone run: apt-get install $missing" >&2
    exit 1
fi

echo "Installing: $missing"
export DEBIAN_FRONTEND=noninteractive
as_root apt-get -qq -o Acquire::Retries=3 update
# Tools of one version may be gone from a newer release, and PETSc is not everywhere: what needs them is
# then skipped, with a reason.
for package in clang-format-14 clang-tidy-14 libpetsc-real-dev; do
    case " $missing " in
    *" $package "*)
        apt-cache show "$package" >/dev/null 2>&1 ||
            missing=$(echo " $missing " | sed "s/ $package / /")
        ;;
    esac
done
# shellcheck disable=SC2086 # a list of words
as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 --no-install-recommends install $missing
