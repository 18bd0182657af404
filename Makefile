# SPDX-License-Identifier: Apache-2.0
# A thin front of CMake; everything it does can be had from cmake, ctest and scripts/ as well.
PREFIX ?= /usr/local
BUILD := build/release
SOURCES = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh')

.PHONY: help deps build test check sanitize demo install fmt tidy gpusan bench python docs clean

help:            ## list these targets
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

deps:            ## install the packages that build, tests and docs need (apt)
	@scripts/deps.sh all

build:           ## the library and the command, into build/release
	@scripts/deps.sh build
	cmake --preset release -DHF_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX))
	cmake --build --preset release

test:            ## all tests of the release build; the last line counts them
	@scripts/deps.sh test
	@scripts/test.sh ci

check:           ## tests and lints of what differs from main (or from BASE)
	@scripts/deps.sh test
	@scripts/check.py $(BASE)

sanitize:        ## tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	@scripts/deps.sh test
	@scripts/test.sh asan tsan

demo:            ## cluster 10,000 images into demo/
	@scripts/deps.sh build
	@scripts/demo.sh

install: build   ## into PREFIX (/usr/local), below DESTDIR if given
	cmake --install $(BUILD) --prefix $(PREFIX)

fmt:             ## format all sources (clang-format 14)
	clang-format-14 -i $(SOURCES)

tidy:            ## clang-tidy over src and tools
	cmake --preset ci
	python3 tests/lint/tidy.py build/ci

gpusan:          ## the kernel test on a GPU under compute-sanitizer
	@scripts/deps.sh test
	cmake --preset release
	cmake --build --preset release --target test_kernels
	scripts/sanitize.py --test $(BUILD)/tests/test_kernels

bench:           ## compare with other libraries: see bench/README.md
	@scripts/deps.sh build
	cmake --preset release -DHF_TESTS=OFF
	cmake --build --preset release
	bench/run.sh --build build/release

python:          ## the Python wheel, tested in an environment of its own, into build/python/wheel
	@scripts/deps.sh test
	scripts/python.sh all

docs:            ## references of C (build/release/api) and Python (build/release/python)
	@scripts/deps.sh docs
	cmake --preset release -DHF_TESTS=OFF
	cmake --build --preset release --target docs
	scripts/python_docs.sh $(BUILD)/python

clean:           ## remove build/ and demo/
	rm -rf build demo
