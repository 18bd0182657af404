/* SPDX-License-Identifier: Apache-2.0
 * The directory of a ZIP archive, as .npz files are: which bytes hold a member. */
#ifndef HF_ZIP_H
#define HF_ZIP_H

#include "io/bytes.h"
#include <stdbool.h>

#define HF_ZIP_NAME 256

struct hf_zip_member {
    char name[HF_ZIP_NAME]; /* in the archive */
    int64_t offset;         /* of its first byte in the file */
    int64_t packed, bytes;  /* in the file, and unpacked */
    uint32_t crc32;         /* of the unpacked bytes */
    bool deflated;          /* else stored as it is */
};

/* Do these first bytes begin an archive? One without members is one too. */
bool hf_zip_probe(const unsigned char *head, size_t bytes);

/* Find the member `wanted`, whose name may lack its .npy, or the only one there is (NULL). A stored
 * member is read through once, to see that its checksum is right. HF_E_DATA: none or several,
 * damaged, encrypted, packed in another way. */
hf_status hf_zip_find(const struct hf_bytes *file, const char *wanted, struct hf_zip_member *member,
                      hf_error *err);

#endif
