/* SPDX-License-Identifier: Apache-2.0
 * ZIP archives. An input whose first byte is odd is an archive as it stands. Else the rest becomes
 * the only member of one that is made here, stored or deflated, so that mutations reach what lies
 * behind the directory; the second byte then damages a byte of the archive, if it is not 0. */
#include "fuzz_deflate.h"

static void put(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* The fields that a local header and an entry of the directory share. */
static void put_common(uint8_t *p, int method, uint32_t crc, size_t packed, size_t bytes) {
    put(p, 20, 2);
    put(p + 4, (uint64_t)method, 2);
    put(p + 10, crc, 4);
    put(p + 14, packed, 4);
    put(p + 18, bytes, 4);
    put(p + 22, 5, 2); /* of the name */
}

/* An archive of *bytes bytes whose only member a.npy is the content. */
static uint8_t *archive(uint8_t *content, size_t size, int deflated, size_t *bytes) {
    const size_t room = compressBound((uLong)size) + 64;
    uint8_t *zip = calloc(1, room + 30 + 5 + 46 + 5 + 22);
    require(zip != NULL, "no memory");
    size_t packed = size;
    if (deflated)
        packed = fuzz_deflate(content, size, zip + 35, room, -15);
    else
        memcpy(zip + 35, content, size);
    const uint32_t crc = (uint32_t)crc32_z(0, content, size);
    memcpy(zip, "PK\3\4", 4);
    put_common(zip + 4, deflated ? 8 : 0, crc, packed, size);
    memcpy(zip + 30, "a.npy", 5);
    uint8_t *entry = zip + 35 + packed;
    memcpy(entry, "PK\1\2", 4);
    put_common(entry + 6, deflated ? 8 : 0, crc, packed, size);
    memcpy(entry + 46, "a.npy", 5);
    uint8_t *end = entry + 51;
    memcpy(end, "PK\5\6", 4);
    put(end + 8, 1, 2);
    put(end + 10, 1, 2);
    put(end + 12, 51, 4);
    put(end + 16, 35 + packed, 4);
    *bytes = (size_t)(end + 22 - zip);
    return zip;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    if (data[0] % 2 == 1)
        return fuzz_file(data + 1, size - 1, "fuzz.npz");
    uint8_t *content = malloc(size - 2);
    require(content != NULL, "no memory");
    memcpy(content, data + 2, size - 2);
    size_t bytes = 0;
    uint8_t *zip = archive(content, size - 2, data[0] & 2, &bytes);
    if (data[1] != 0) /* near the end, where the directory is */
        zip[bytes - 1 - (size_t)(data[1] * 7 % (int)bytes)] ^= data[1];
    (void)fuzz_file(zip, bytes, "fuzz.npz");
    free(zip);
    free(content);
    return 0;
}
