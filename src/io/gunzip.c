/* SPDX-License-Identifier: Apache-2.0 */
#include "io/gunzip.h"

#include "base/mem.h"

#include <zlib.h>

#define PACKED_BYTES 65536
#define INFLATE_MAX ((uInt)1 << 30) /* bytes asked of zlib at once: its counters are 32 bits */

struct hf_gunzip {
    z_stream z;
    struct hf_bytes file;
    const struct hf_zip_member *member; /* NULL: a gzip file */
    int64_t packed_offset;              /* where the file is read next */
    uint32_t crc32;                     /* of what was handed out of a member */
    int64_t position;                   /* bytes handed out so far */
    bool file_end;
    bool member_end; /* between two members, or at the end */
    unsigned char packed[PACKED_BYTES];
};

static voidpf take(voidpf user, uInt items, uInt bytes) {
    (void)user;
    return hf_alloc((size_t)items * bytes);
}

static void give(voidpf user, voidpf p) {
    (void)user;
    hf_free(p);
}

hf_status hf_gunzip_open(struct hf_gunzip **gz, const struct hf_bytes *file,
                         const struct hf_zip_member *member, hf_error *err) {
    *gz = NULL;
    struct hf_gunzip *g = hf_alloc_zero(sizeof *g);
    if (g == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to decompress it", file->name);
    g->file = *file;
    g->member = member;
    g->packed_offset = member != NULL ? member->offset : 0;
    g->z.zalloc = take;
    g->z.zfree = give;
    /* 15: the largest window; + 16: gzip and nothing else; negative: without any frame. */
    if (inflateInit2(&g->z, member != NULL ? -15 : 15 + 16) != Z_OK) {
        hf_free(g);
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to decompress it", file->name);
    }
    *gz = g;
    return HF_OK;
}

void hf_gunzip_close(struct hf_gunzip *gz) {
    if (gz == NULL)
        return;
    (void)inflateEnd(&gz->z);
    hf_free(gz);
}

int64_t hf_gunzip_position(const struct hf_gunzip *gz) { return gz->position; }

static hf_status refill(struct hf_gunzip *g, hf_error *err) {
    size_t ask = sizeof g->packed;
    size_t n = 0;
    if (g->member != NULL) {
        const int64_t left = g->member->offset + g->member->packed - g->packed_offset;
        ask = left < PACKED_BYTES ? (size_t)left : ask;
    }
    HF_TRY(hf_bytes_read(&g->file, g->packed_offset, g->packed, ask, &n, err));
    g->packed_offset += (int64_t)n;
    g->file_end = n == 0;
    g->z.next_in = g->packed;
    g->z.avail_in = (uInt)n;
    return HF_OK;
}

/* What was handed out is all of a member of an archive, and right. */
static hf_status check_member(const struct hf_gunzip *g, hf_error *err) {
    if (g->position == g->member->bytes && g->crc32 == g->member->crc32)
        return HF_OK;
    return hf_fail(err, HF_E_DATA,
                   "%s: the compressed data are damaged: %s; get or write the file again",
                   g->file.name,
                   g->position == g->member->bytes ? "their checksum is wrong"
                                                   : "their length is not the one promised");
}

/* After a member of a gzip file: another one may follow, or zeros up to the end (tapes pad so),
 * nothing else. */
static hf_status next_member(struct hf_gunzip *g, hf_error *err) {
    if (g->member != NULL) {
        g->file_end = true;
        return HF_OK;
    }
    while (g->z.avail_in > 0 && *g->z.next_in == 0) {
        g->z.next_in++;
        g->z.avail_in--;
    }
    if (g->z.avail_in == 0)
        return HF_OK;
    if (*g->z.next_in != 0x1f)
        return hf_fail(
            err, HF_E_DATA,
            "%s: bytes that are no gzip data follow the compressed data at byte %lld; the "
            "file is damaged: compress it again",
            g->file.name, (long long)(g->packed_offset - g->z.avail_in));
    if (inflateReset(&g->z) != Z_OK)
        return hf_fail(err, HF_E_INTERNAL, "%s: the decompressor cannot be reset", g->file.name);
    g->member_end = false;
    return HF_OK;
}

static hf_status inflate_some(struct hf_gunzip *g, hf_error *err) {
    const int rc = inflate(&g->z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END)
        g->member_end = true;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
        return HF_OK;
    if (rc == Z_MEM_ERROR)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to decompress it", g->file.name);
    return hf_fail(err, HF_E_DATA,
                   "%s: the %s data are damaged near byte %lld (%s); get or compress "
                   "the file again",
                   g->file.name, g->member != NULL ? "compressed" : "gzip",
                   (long long)(g->packed_offset - g->z.avail_in),
                   g->z.msg != NULL ? g->z.msg : "no details");
}

hf_status hf_gunzip_read(struct hf_gunzip *gz, void *dst, size_t bytes, size_t *got,
                         hf_error *err) {
    *got = 0;
    while (*got < bytes) {
        if (gz->z.avail_in == 0 && !gz->file_end)
            HF_TRY(refill(gz, err));
        if (gz->member_end)
            HF_TRY(next_member(gz, err));
        if (gz->member_end && gz->file_end)
            return HF_OK;
        if (gz->member_end)
            continue;
        const size_t left = bytes - *got;
        const uInt ask = left < INFLATE_MAX ? (uInt)left : INFLATE_MAX;
        gz->z.next_out = (unsigned char *)dst + *got;
        gz->z.avail_out = ask;
        HF_TRY(inflate_some(gz, err));
        const size_t more = ask - gz->z.avail_out;
        if (gz->member != NULL)
            gz->crc32 = (uint32_t)crc32_z(gz->crc32, (unsigned char *)dst + *got, more);
        *got += more;
        gz->position += (int64_t)more;
        if (gz->member != NULL && gz->member_end)
            HF_TRY(check_member(gz, err));
        if (gz->file_end && !gz->member_end && gz->z.avail_out == ask)
            return hf_fail(
                err, HF_E_DATA,
                "%s: the compressed data end in the middle, after %lld bytes of content; "
                "the file is cut off: get or compress it again",
                gz->file.name, (long long)gz->position);
    }
    return HF_OK;
}
