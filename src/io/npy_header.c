/* SPDX-License-Identifier: Apache-2.0 */
#include "io/npy_header.h"

#include <string.h>

struct parser {
    const char *start, *p, *end;
    const char *name;
    int64_t offset;
    hf_error *err;
};

static hf_status fail(const struct parser *ps, const char *wanted) {
    const int64_t at = ps->offset + (ps->p - ps->start);
    return hf_fail(ps->err, HF_E_DATA,
                   "%s: damaged .npy header: %s expected at byte %lld; save the array again with "
                   "numpy.save",
                   ps->name, wanted, (long long)at);
}

static void skip_space(struct parser *ps) {
    while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\n' || *ps->p == '\r'))
        ps->p++;
}

/* Is c next? Then step over it. */
static bool next_is(struct parser *ps, char c) {
    skip_space(ps);
    if (ps->p == ps->end || *ps->p != c)
        return false;
    ps->p++;
    return true;
}

/* A quoted string without escapes, cut to fit into text. */
static hf_status parse_string(struct parser *ps, char *text, size_t room) {
    skip_space(ps);
    if (ps->p == ps->end || (*ps->p != '\'' && *ps->p != '"'))
        return fail(ps, "a quoted string");
    const char quote = *ps->p++;
    const char *from = ps->p;
    while (ps->p < ps->end && *ps->p != quote && *ps->p != '\\' && *ps->p >= 32 && *ps->p < 127)
        ps->p++;
    if (ps->p == ps->end || *ps->p != quote)
        return fail(ps, "the end of a plain string");
    const size_t bytes = (size_t)(ps->p++ - from);
    const size_t kept = bytes < room ? bytes : room - 1;
    memcpy(text, from, kept);
    text[kept] = '\0';
    return HF_OK;
}

/* Structured types are refused later, with a better message: step over the list here. */
static hf_status skip_list(struct parser *ps) {
    int depth = 0;
    do {
        if (ps->p == ps->end)
            return fail(ps, "']'");
        if (*ps->p == '[')
            depth++;
        if (*ps->p == ']')
            depth--;
        ps->p++;
    } while (depth > 0);
    return HF_OK;
}

static hf_status parse_descr(struct parser *ps, struct hf_npy_header *h) {
    skip_space(ps);
    if (ps->p < ps->end && *ps->p == '[') {
        memcpy(h->descr, "[", 2);
        return skip_list(ps);
    }
    return parse_string(ps, h->descr, sizeof h->descr);
}

static bool next_word(struct parser *ps, const char *word) {
    const size_t bytes = strlen(word);
    skip_space(ps);
    if ((size_t)(ps->end - ps->p) < bytes || memcmp(ps->p, word, bytes) != 0)
        return false;
    ps->p += bytes;
    return true;
}

static hf_status parse_bool(struct parser *ps, bool *value) {
    *value = next_word(ps, "True");
    return *value || next_word(ps, "False") ? HF_OK : fail(ps, "True or False");
}

/* Python 2 wrote 3L. */
static hf_status parse_size(struct parser *ps, int64_t *value) {
    skip_space(ps);
    if (ps->p == ps->end || *ps->p < '0' || *ps->p > '9')
        return fail(ps, "a size");
    *value = 0;
    for (; ps->p < ps->end && *ps->p >= '0' && *ps->p <= '9'; ps->p++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *ps->p - '0', value))
            return fail(ps, "a size below 2^63");
    if (ps->p < ps->end && *ps->p == 'L')
        ps->p++;
    return HF_OK;
}

static hf_status parse_shape(struct parser *ps, struct hf_npy_header *h) {
    if (!next_is(ps, '('))
        return fail(ps, "'('");
    h->dims = 0;
    while (!next_is(ps, ')')) {
        if (h->dims == HF_NPY_MAX_DIMS)
            return fail(ps, "')' after at most 64 sizes");
        HF_TRY(parse_size(ps, &h->shape[h->dims]));
        h->dims++;
        if (next_is(ps, ','))
            continue;
        /* (3) is a number in Python, not a tuple. */
        if (h->dims == 1 || !next_is(ps, ')'))
            return fail(ps, "','");
        break;
    }
    return HF_OK;
}

static hf_status parse_entry(struct parser *ps, struct hf_npy_header *h, bool seen[3]) {
    static const char *const keys[3] = {"descr", "fortran_order", "shape"};
    char key[16];
    HF_TRY(parse_string(ps, key, sizeof key));
    int k = 0;
    while (k < 3 && strcmp(key, keys[k]) != 0)
        k++;
    if (k == 3 || seen[k])
        return fail(ps, "'descr', 'fortran_order' and 'shape', each once,");
    seen[k] = true;
    if (!next_is(ps, ':'))
        return fail(ps, "':'");
    if (k == 0)
        return parse_descr(ps, h);
    return k == 1 ? parse_bool(ps, &h->fortran) : parse_shape(ps, h);
}

hf_status hf_npy_parse(struct hf_npy_header *h, const char *text, size_t bytes, const char *name,
                       int64_t offset, hf_error *err) {
    struct parser ps = {text, text, text + bytes, name, offset, err};
    bool seen[3] = {false, false, false};
    if (!next_is(&ps, '{'))
        return fail(&ps, "'{'");
    while (!next_is(&ps, '}')) {
        HF_TRY(parse_entry(&ps, h, seen));
        if (next_is(&ps, ','))
            continue;
        if (!next_is(&ps, '}'))
            return fail(&ps, "',' or '}'");
        break;
    }
    if (!seen[0] || !seen[1] || !seen[2])
        return fail(&ps, "'descr', 'fortran_order' and 'shape', each once,");
    skip_space(&ps);
    return ps.p == ps.end ? HF_OK : fail(&ps, "the end of the header");
}
