/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dataset.h"

#include <string.h>

static const struct hf_format formats[] = {
#define FORMAT(name, endings, probe, open) {#name, endings, probe, open},
#include "io/formats.def"
#undef FORMAT
};

/* Files that people pass by mistake, told by their first bytes. */
static const struct {
    const char *magic;
    size_t bytes;
    const char *advice;
} foreign[] = {
    {"PK\3\4", 4, "a ZIP archive inside of another file; unpack that first"},
    {"\x89HDF\r\n\x1a\n", 8, "HDF5; save the array with numpy.save"},
    {"PAR1", 4, "Parquet; save the numeric columns with numpy.save"},
    {"ARROW1", 6, "Arrow or Feather; save the numeric columns with numpy.save"},
    {"MATLAB 5", 8, "a MATLAB file; save the matrix with numpy.save"},
    {"\x80\x04\x95", 3, "a Python pickle, which is never loaded; save the array with numpy.save"},
    {"\xfd"
     "7zXZ",
     5, "xz-compressed; unpack it, or compress with gzip instead"},
    {"\x28\xb5\x2f\xfd", 4, "zstd-compressed; unpack it, or compress with gzip instead"},
    {"BZh", 3, "bzip2-compressed; unpack it, or compress with gzip instead"},
};

static bool ends_with(const char *s, size_t bytes, const char *end, size_t end_bytes) {
    return bytes >= end_bytes && memcmp(s + bytes - end_bytes, end, end_bytes) == 0;
}

static bool name_fits(const char *path, const char *endings) {
    size_t bytes = strlen(path);
    if (ends_with(path, bytes, ".gz", 3))
        bytes -= 3;
    while (*endings != '\0') {
        const size_t length = strcspn(endings, " ");
        if (ends_with(path, bytes, endings, length))
            return true;
        endings += length;
        endings += strspn(endings, " ");
    }
    return false;
}

hf_status hf_format_detect(const struct hf_input *in, const char *path,
                           const struct hf_format **format, hf_error *err) {
    if (name_fits(path, ".ivecs"))
        return hf_fail(err, HF_E_DATA,
                       "%s: .ivecs files hold int32, which nothing tells from float32; save the "
                       "array with numpy.save",
                       in->name);
    /* A name outweighs a likely content, so that a damaged file is reported as what it was meant to
     * be; content that cannot be of the format outweighs the name. */
    enum { NAMED = 3, LIKELY = 2 * HF_PROBE_LIKELY };
    int best = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const bool named = name_fits(path, formats[i].endings);
        const int score = 2 * (int)formats[i].probe(in) + (named ? NAMED : 0);
        if (score > best) {
            best = score;
            *format = &formats[i];
        }
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign && best < LIKELY; i++)
        if (in->head_bytes >= foreign[i].bytes &&
            memcmp(in->head, foreign[i].magic, foreign[i].bytes) == 0)
            return hf_fail(err, HF_E_DATA, "%s: cannot be read: its content is %s", in->name,
                           foreign[i].advice);
    if (best >= NAMED)
        return HF_OK;
    return hf_fail(err, HF_E_DATA,
                   "%s: the format is not known: neither the content nor the name is that of .npy, "
                   ".fvecs, .bvecs, IDX or CSV; save the data with numpy.save",
                   in->name);
}
