/* SPDX-License-Identifier: Apache-2.0
 * Compressed files. An input whose first byte is odd is a gzip file as it stands. Else the rest is
 * compressed here, so that mutations reach what lies behind the decompressor; the first byte then
 * says where the compressed file is cut, if it is. */
#include "fuzz_io.h"

#include <zlib.h>

/* size bytes as a gzip file of *bytes bytes, to be freed. */
static uint8_t *pack(uint8_t *content, size_t size, size_t *bytes) {
    z_stream z;
    memset(&z, 0, sizeof z);
    require(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "no deflate");
    const size_t room = deflateBound(&z, (uLong)size);
    uint8_t *packed = malloc(room);
    require(packed != NULL, "no memory");
    z.next_in = content;
    z.avail_in = (uInt)size;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    require(deflate(&z, Z_FINISH) == Z_STREAM_END, "no end");
    (void)deflateEnd(&z);
    *bytes = room - z.avail_out;
    return packed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    if (data[0] % 2 == 1)
        return fuzz_file(data + 1, size - 1, "fuzz.gz");
    uint8_t *content = malloc(size - 1);
    require(content != NULL, "no memory");
    memcpy(content, data + 1, size - 1);
    size_t bytes = 0;
    uint8_t *packed = pack(content, size - 1, &bytes);
    const size_t cut = data[0] / 2u;
    (void)fuzz_file(packed, cut < bytes ? bytes - cut : bytes, "fuzz.gz");
    free(packed);
    free(content);
    return 0;
}
