/* SPDX-License-Identifier: Apache-2.0
 * ZIP archives after the specification (APPNOTE.TXT 6.3), as far as numpy.savez and its like go:
 * one disk, members stored or deflated, 64-bit sizes. Sizes and places come from the directory at
 * the end of the file alone; nothing is believed that does not lie inside of the file. */
#include "io/zip.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define END_BYTES 22 /* the record at the end, without its comment */
#define COMMENT_MAX 65535
#define LOCATOR_BYTES 20 /* of the 64-bit record, in front of that one */
#define END64_BYTES 56
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30
#define DIRECTORY_MAX ((int64_t)64 << 20)
#define BLOCK_BYTES 65536

struct archive {
    struct hf_bytes file;
    unsigned char *directory;
    int64_t directory_offset, directory_bytes;
    hf_error *err;
};

static uint32_t get2(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t get4(const unsigned char *p) { return get2(p) | get2(p + 2) << 16; }
static uint64_t get8(const unsigned char *p) { return get4(p) | (uint64_t)get4(p + 4) << 32; }

static bool signed_as(const unsigned char *p, unsigned a, unsigned b) {
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

bool hf_zip_probe(const unsigned char *head, size_t bytes) {
    return bytes >= 4 && (signed_as(head, 3, 4) || signed_as(head, 5, 6));
}

static hf_status damaged(const struct archive *a, const char *what) {
    (void)hf_fail(a->err, HF_E_DATA,
                  "%s: the ZIP archive is cut off or damaged: %s; write or copy it again",
                  a->file.name, what);
    return HF_E_DATA;
}

/* [offset, offset + bytes) lies in the file before `end`. */
static bool inside(int64_t offset, int64_t bytes, int64_t end) {
    return offset >= 0 && bytes >= 0 && offset <= end && bytes <= end - offset;
}

static hf_status read_at(const struct archive *a, int64_t offset, void *dst, int64_t bytes) {
    size_t got = 0;
    if (!inside(offset, bytes, a->file.size))
        return damaged(a, "a part of it lies beyond its end");
    HF_TRY(hf_bytes_read(&a->file, offset, dst, (size_t)bytes, &got, a->err));
    return (int64_t)got == bytes ? HF_OK : damaged(a, "it ends too soon");
}

/* The directory's place from the 64-bit record that the locator at `at` points to. */
static hf_status find_directory64(struct archive *a, int64_t at) {
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    HF_TRY(read_at(a, at, locator, sizeof locator));
    if (!signed_as(locator, 6, 7))
        return damaged(a, "the record of its 64-bit sizes is missing");
    HF_TRY(read_at(a, (int64_t)(get8(locator + 8) & INT64_MAX), end, sizeof end));
    if (!signed_as(end, 6, 6))
        return damaged(a, "the record of its 64-bit sizes is not where it should be");
    a->directory_bytes = (int64_t)(get8(end + 40) & INT64_MAX);
    a->directory_offset = (int64_t)(get8(end + 48) & INT64_MAX);
    return HF_OK;
}

/* The record at the end, behind which there may be a comment. */
static hf_status find_directory(struct archive *a, unsigned char *tail) {
    const int64_t most = END_BYTES + COMMENT_MAX;
    const int64_t bytes = a->file.size < most ? a->file.size : most;
    const int64_t start = a->file.size - bytes;
    HF_TRY(read_at(a, start, tail, bytes));
    int64_t at = bytes - END_BYTES;
    while (at >= 0 &&
           !(signed_as(tail + at, 5, 6) && get2(tail + at + 20) == bytes - END_BYTES - at))
        at--;
    if (at < 0)
        return damaged(a, "its directory, which stands at the end, is missing");
    const unsigned char *end = tail + at;
    if (get2(end + 4) != 0 || get2(end + 6) != 0)
        return damaged(a, "it is one part of several");
    a->directory_bytes = get4(end + 12);
    a->directory_offset = get4(end + 16);
    if (get2(end + 10) == UINT16_MAX || get4(end + 12) == UINT32_MAX ||
        get4(end + 16) == UINT32_MAX)
        return find_directory64(a, start + at - LOCATOR_BYTES);
    return HF_OK;
}

static hf_status read_directory(struct archive *a) {
    unsigned char *tail = hf_alloc(END_BYTES + COMMENT_MAX);
    if (tail == NULL)
        return hf_fail(a->err, HF_E_NOMEM, "%s: no memory to read it", a->file.name);
    const hf_status status = find_directory(a, tail);
    hf_free(tail);
    HF_TRY(status);
    if (!inside(a->directory_offset, a->directory_bytes, a->file.size))
        return damaged(a, "its directory lies beyond its end");
    if (a->directory_bytes > DIRECTORY_MAX)
        return hf_fail(a->err, HF_E_DATA,
                       "%s: the directory of the ZIP archive takes %lld bytes, more than any of "
                       "arrays; save the array alone with numpy.save",
                       a->file.name, (long long)a->directory_bytes);
    a->directory = hf_alloc((size_t)a->directory_bytes + 1);
    if (a->directory == NULL)
        return hf_fail(a->err, HF_E_NOMEM, "%s: no memory to read its directory", a->file.name);
    return read_at(a, a->directory_offset, a->directory, a->directory_bytes);
}

/* 64-bit values of an entry stand in an extra field, those alone whose short form is full, in the
 * order unpacked, packed, offset. */
static bool widen(const unsigned char *extra, int64_t bytes, uint64_t *const value[3]) {
    bool wanted[3];
    for (int i = 0; i < 3; i++)
        wanted[i] = *value[i] == UINT32_MAX;
    while (bytes >= 4) {
        const int64_t length = get2(extra + 2);
        const unsigned char *field = extra + 4;
        if (length > bytes - 4)
            return false;
        int64_t left = get2(extra) == 1 ? length : 0;
        for (int i = 0; i < 3 && left >= 8; i++)
            if (wanted[i]) {
                *value[i] = get8(field);
                wanted[i] = false;
                field += 8;
                left -= 8;
            }
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return !wanted[0] && !wanted[1] && !wanted[2];
}

/* An entry of the directory; member->offset is that of its local header. *next: the one behind. */
static hf_status read_entry(const struct archive *a, int64_t at, struct hf_zip_member *member,
                            uint32_t *flags, uint32_t *method, int64_t *next) {
    const unsigned char *p = a->directory + at;
    if (!inside(at, ENTRY_BYTES, a->directory_bytes) || !signed_as(p, 1, 2))
        return damaged(a, "an entry of its directory is not one");
    const int64_t name = get2(p + 28), extra = get2(p + 30), comment = get2(p + 32);
    if (!inside(at + ENTRY_BYTES, name + extra + comment, a->directory_bytes))
        return damaged(a, "an entry of its directory is cut off");
    *next = at + ENTRY_BYTES + name + extra + comment;
    *flags = get2(p + 8);
    *method = get2(p + 10);
    uint64_t packed = get4(p + 20), bytes = get4(p + 24), offset = get4(p + 42);
    uint64_t *const values[3] = {&bytes, &packed, &offset};
    if (!widen(p + ENTRY_BYTES + name, extra, values))
        return damaged(a, "an entry of its directory lacks its 64-bit sizes");
    if (packed > INT64_MAX || bytes > INT64_MAX || offset > INT64_MAX)
        return damaged(a, "an entry of its directory has sizes beyond 2^63");
    const size_t kept = (size_t)(name < HF_ZIP_NAME ? name : HF_ZIP_NAME - 1);
    memcpy(member->name, p + ENTRY_BYTES, kept);
    member->name[kept] = '\0';
    for (char *c = member->name; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    member->crc32 = get4(p + 16);
    member->packed = (int64_t)packed;
    member->bytes = (int64_t)bytes;
    member->offset = (int64_t)offset;
    return HF_OK;
}

static bool is_wanted(const char *name, const char *wanted) {
    const size_t bytes = strlen(wanted);
    return strncmp(name, wanted, bytes) == 0 &&
           (name[bytes] == '\0' || strcmp(name + bytes, ".npy") == 0);
}

/* "a, b, c", without .npy, cut where the room ends. */
static void list_name(char *list, size_t room, const char *name) {
    const size_t used = strlen(list);
    const size_t bytes = strlen(name);
    const bool npy = bytes > 4 && strcmp(name + bytes - 4, ".npy") == 0;
    if (used + bytes + 8 < room)
        (void)snprintf(list + used, room - used, "%s%.*s", used > 0 ? ", " : "",
                       (int)(npy ? bytes - 4 : bytes), name);
    else if (used + 6 < room && list[used - 1] != '.')
        (void)snprintf(list + used, room - used, ", ...");
}

static hf_status not_one(const struct archive *a, const char *wanted, int found, int count,
                         const char *list) {
    if (count == 0)
        return hf_fail(a->err, HF_E_DATA, "%s: the ZIP archive is empty; save an array in it",
                       a->file.name);
    if (wanted == NULL)
        return hf_fail(a->err, HF_E_DATA,
                       "%s: holds %d arrays (%s): name one of them, as in FILE.npz:NAME",
                       a->file.name, count, list);
    if (found > 1)
        return damaged(a, "two members have the name that was asked for");
    return hf_fail(a->err, HF_E_DATA, "%s: holds no array '%s'; there %s %s", a->file.name, wanted,
                   count == 1 ? "is" : "are", list);
}

static hf_status check_kind(const struct archive *a, const struct hf_zip_member *m, uint32_t flags,
                            uint32_t method) {
    if (flags & 1)
        return hf_fail(a->err, HF_E_DATA,
                       "%s: '%s' is encrypted; save the array without a password", a->file.name,
                       m->name);
    if (method != 0 && method != 8)
        return hf_fail(a->err, HF_E_DATA,
                       "%s: '%s' is packed by method %u; stored (0) and deflated (8) members are "
                       "read: save the array with numpy.savez or numpy.savez_compressed",
                       a->file.name, m->name, (unsigned)method);
    return HF_OK;
}

static hf_status choose(struct archive *a, const char *wanted, struct hf_zip_member *member) {
    char list[200] = "";
    int count = 0, found = 0;
    uint32_t flags = 0, method = 0;
    assert(a->directory != NULL); /* it was read */
    for (int64_t at = 0; at < a->directory_bytes;) {
        struct hf_zip_member m = {{0}, 0, 0, 0, 0, false};
        uint32_t its_flags = 0, its_method = 0;
        HF_TRY(read_entry(a, at, &m, &its_flags, &its_method, &at));
        const size_t length = strlen(m.name);
        if (length == 0 || m.name[length - 1] == '/')
            continue; /* a folder */
        count++;
        list_name(list, sizeof list, m.name);
        if (wanted != NULL && !is_wanted(m.name, wanted))
            continue;
        found++;
        *member = m;
        flags = its_flags;
        method = its_method;
    }
    if (found != 1)
        return not_one(a, wanted, found, count, list);
    HF_TRY(check_kind(a, member, flags, method));
    member->deflated = method == 8;
    return HF_OK;
}

/* From the local header to the bytes behind it. */
static hf_status place(const struct archive *a, struct hf_zip_member *m) {
    unsigned char local[LOCAL_BYTES];
    HF_TRY(read_at(a, m->offset, local, sizeof local));
    if (!signed_as(local, 3, 4))
        return damaged(a, "its directory points to what is no member");
    m->offset += LOCAL_BYTES + (int64_t)get2(local + 26) + (int64_t)get2(local + 28);
    if (!inside(m->offset, m->packed, a->directory_offset))
        return damaged(a, "a member does not end before the directory");
    if (!m->deflated && m->packed != m->bytes)
        return damaged(a, "the two sizes of a stored member differ");
    if (m->bytes == 0)
        return hf_fail(a->err, HF_E_DATA, "%s: '%s' is empty; write data to it first", a->file.name,
                       m->name);
    return HF_OK;
}

static hf_status check_stored(const struct archive *a, const struct hf_zip_member *m) {
    unsigned char *block = hf_alloc(BLOCK_BYTES);
    uint32_t crc = 0;
    hf_status status = block != NULL
                           ? HF_OK
                           : hf_fail(a->err, HF_E_NOMEM, "%s: no memory to read it", a->file.name);
    for (int64_t done = 0; status == HF_OK && done < m->bytes; done += BLOCK_BYTES) {
        const int64_t now = m->bytes - done < BLOCK_BYTES ? m->bytes - done : BLOCK_BYTES;
        status = read_at(a, m->offset + done, block, now);
        if (status == HF_OK)
            crc = (uint32_t)crc32_z(crc, block, (size_t)now);
    }
    hf_free(block);
    if (status == HF_OK && crc != m->crc32)
        status = damaged(a, "the checksum of the array is not that of its bytes");
    return status;
}

hf_status hf_zip_find(const struct hf_bytes *file, const char *wanted, struct hf_zip_member *member,
                      hf_error *err) {
    struct archive a = {.file = *file, .err = err};
    hf_status status = read_directory(&a);
    if (status == HF_OK)
        status = choose(&a, wanted, member);
    hf_free(a.directory);
    HF_TRY(status);
    HF_TRY(place(&a, member));
    return member->deflated ? HF_OK : check_stored(&a, member);
}
