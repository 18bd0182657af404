#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Cluster the 10,000 test images of Fashion-MNIST into demo/.
set -eu
cd "$(dirname "$0")/.."
cmake --preset release -DHF_TESTS=OFF >/dev/null
cmake --build --preset release --target holdfast_cli -j "${JOBS:-$(nproc)}"
set -- kmeans tests/data/fashion-mnist/t10k-images-idx3-ubyte.gz -k 64 --seed 1 -o demo \
    --picture 28x28
echo "holdfast $*"
build/release/holdfast "$@"
ls -l demo
