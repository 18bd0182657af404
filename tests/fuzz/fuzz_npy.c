/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_file(data, size, "fuzz.npy");
}
