/* SPDX-License-Identifier: Apache-2.0
 * Compressed files. An input whose first byte is odd is a gzip file as it stands. Else the rest is
 * compressed here, so that mutations reach what lies behind the decompressor; the first byte then
 * says where the compressed file is cut, if it is. */
#include "fuzz_deflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    if (data[0] % 2 == 1)
        return fuzz_file(data + 1, size - 1, "fuzz.gz");
    uint8_t *content = malloc(size - 1);
    require(content != NULL, "no memory");
    memcpy(content, data + 1, size - 1);
    const size_t room = compressBound((uLong)size) + 64;
    uint8_t *packed = malloc(room);
    require(packed != NULL, "no memory");
    const size_t bytes = fuzz_deflate(content, size - 1, packed, room, 15 + 16);
    const size_t cut = data[0] / 2u;
    (void)fuzz_file(packed, cut < bytes ? bytes - cut : bytes, "fuzz.gz");
    free(packed);
    free(content);
    return 0;
}
