#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All tests: the release build, then those parts that sanitizers can tell more about. The last line is
# "N passed, N failed, N skipped"; the exit status is 1 when something failed.
set -u
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
reports=

# run PRESET SELECTION...: configure, build, test; SELECTION goes to ctest
run() {
    preset=$1
    shift
    report=$PWD/build/$preset/report.xml
    reports="$reports $report"
    rm -f "$report"
    echo "== $preset"
    cmake --preset "$preset" >"build/$preset.log" 2>&1 || {
        cat "build/$preset.log"
        return
    }
    cmake --build --preset "$preset" -j "$jobs" >"build/$preset.log" 2>&1 || {
        grep -v '^\[' "build/$preset.log" | tail -60
        return
    }
    # One test after the other: most use all cores themselves.
    ctest --test-dir "build/$preset" --output-on-failure --test-output-size-passed 4194304 \
        --test-output-size-failed 4194304 --output-junit "$report" "$@"
}

mkdir -p build
started=$(date +%s)
run ci
run asan -L 'unit|fuzz|quick'
run tsan -L threads
echo "== all, after $(($(date +%s) - started)) s"
# shellcheck disable=SC2086 # a list of paths without blanks
python3 scripts/summary.py $reports
