/* SPDX-License-Identifier: Apache-2.0
 * Checksums of blocks of rows of a product, by which `holdfast replay` finds where two differ. */
#ifndef ROW_BLOCKS_H
#define ROW_BLOCKS_H

#include "tool.h"

/* {"rows": in a block, "crc32": [of each], "chain": [CRC-32 of the digits of this and all before]}
 * of rows of `bytes` bytes that lie without gaps. NULL: no
 * memory. */
json_t *row_blocks_json(const void *data, int64_t rows, size_t bytes);

#endif
