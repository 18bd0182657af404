/* SPDX-License-Identifier: Apache-2.0
 * IDX as it is; the same content in a gzip file goes through fuzz_gzip.c. */
#include "fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_file(data, size, "fuzz-ubyte");
}
