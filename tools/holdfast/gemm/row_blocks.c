/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm/row_blocks.h"
#include <zlib.h>

#define MOST_BLOCKS 64
#define DIGITS 8 /* of a checksum */

json_t *row_blocks_json(const void *data, int64_t rows, size_t bytes) {
    const int64_t step = (rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    json_t *list = json_array(), *links = json_array();
    uLong chain = 0;
    for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = rows - first < step ? rows - first : step;
        char text[16];
        snprintf(
            text, sizeof text, "%08lx",
            crc32_z(0, (const unsigned char *)data + (size_t)first * bytes, (size_t)count * bytes));
        json_array_append_new(list, json_string(text));
        chain = crc32_z(chain, (const unsigned char *)text, DIGITS);
        snprintf(text, sizeof text, "%08lx", chain);
        json_array_append_new(links, json_string(text));
    }
    return json_pack("{s:I, s:o, s:o}", "rows", (json_int_t)step, "crc32", list, "chain", links);
}
