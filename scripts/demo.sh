#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Cluster the 10,000 test images of Fashion-MNIST into demo/.
set -eu
cd "$(dirname "$0")/.."
# GPU kernels take minutes to compile, and the demo needs none.
cmake --preset release -B build/demo -DHF_TESTS=OFF -DHF_CUDA=OFF >/dev/null
cmake --build build/demo --target holdfast_cli -j "${JOBS:-$(nproc)}"
set -- kmeans tests/data/fashion-mnist/t10k-images-idx3-ubyte.gz -k 64 --seed 1 -o demo \
    --picture 28x28
echo "holdfast $*"
build/demo/holdfast "$@"
ls -l demo
