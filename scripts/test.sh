#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh PRESET... : build each preset (ci, asan, tsan) and run its tests: all of ci, those of a sanitizer
# that it can tell more about. The last line is "N passed, N failed, N skipped"; the exit status is 1 when
# something failed. JOBS: how many compilers and tests at once, else as many as processors; with a GPU, tests
# run one by one.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
at_once=$jobs
[ ! -e /dev/nvidiactl ] || at_once=1 # tests share a GPU badly: plans depend on its free memory

# Configure, build and test a preset; without a report it counts as failed.
run() {
    preset=$1
    case $preset in
    ci) set -- ;;
    asan) set -- -L 'unit|fuzz|quick' ;;
    tsan) set -- -L threads ;;
    *)
        echo "test.sh: there are no tests of the preset '$preset', only of ci, asan and tsan" >&2
        return
        ;;
    esac
    rm -f "build/$preset/report.xml"
    echo "== $preset: build"
    cmake --preset "$preset" >"build/$preset.log" 2>&1 || {
        cat "build/$preset.log"
        return
    }
    cmake --build --preset "$preset" -j "$jobs" || return
    echo "== $preset: tests, after $(($(date +%s) - started)) s"
    ctest --test-dir "build/$preset" -j "$at_once" --output-on-failure --no-label-summary \
        --test-output-size-passed 4194304 --test-output-size-failed 4194304 \
        --output-junit "$PWD/build/$preset/report.xml" "$@"
}

mkdir -p build
started=$(date +%s)
reports=
for preset in "$@"; do
    run "$preset"
    reports="$reports build/$preset/report.xml"
done
echo "== all, after $(($(date +%s) - started)) s"
# shellcheck disable=SC2086 # a list of paths without blanks
python3 scripts/summary.py $reports
