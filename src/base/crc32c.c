/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C, eight bytes a step from eight tables (Kounavis and Berry 2005). */
#include "base/file.h"

#include <pthread.h>

#define POLYNOMIAL 0x82f63b78u /* Castagnoli, bits reversed */

static uint32_t table[8][256]; /* table[j][b]: CRC of byte b followed by j zero bytes */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int j = 1; j < 8; j++)
        for (uint32_t b = 0; b < 256; b++)
            table[j][b] = table[j - 1][b] >> 8 ^ table[0][table[j - 1][b] & 255];
}

/* Little-endian, whatever the machine. */
static uint32_t load_u32(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t hf_crc32c(uint32_t crc, const void *data, size_t bytes) {
    (void)pthread_once(&once, fill);
    const unsigned char *p = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        const uint32_t low = crc ^ load_u32(p), high = load_u32(p + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
              table[4][low >> 24] ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^
              table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; bytes > 0; bytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    return ~crc;
}
