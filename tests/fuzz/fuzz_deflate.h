/* SPDX-License-Identifier: Apache-2.0
 * Compression for fuzz targets, so that mutations reach what lies behind a decompressor. */
#ifndef FUZZ_DEFLATE_H
#define FUZZ_DEFLATE_H

#include "fuzz_io.h"
#include <zlib.h>

/* Deflate size bytes into out, which has room for all; returns how many they are. window_bits as
 * deflateInit2() takes them: 31 makes a gzip file, -15 has no header. */
static inline size_t fuzz_deflate(uint8_t *content, size_t size, uint8_t *out, size_t room,
                                  int window_bits) {
    z_stream z;
    memset(&z, 0, sizeof z);
    require(deflateInit2(&z, 1, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK,
            "no deflate");
    z.next_in = content;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    require(deflate(&z, Z_FINISH) == Z_STREAM_END, "no end");
    (void)deflateEnd(&z);
    return room - z.avail_out;
}

#endif
