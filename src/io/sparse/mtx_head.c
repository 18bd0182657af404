/* SPDX-License-Identifier: Apache-2.0
 * The banner and the sizes of a Matrix Market file (Boisvert, Pozo, Remington: The Matrix Market
 * Exchange Formats, NISTIR 5935). */
#include "io/csv/csv_lines.h"
#include "io/sparse/sparse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BANNER "%%MatrixMarket"
#define BANNER_BYTES 14
#define WORDS 5 /* of the banner */

bool hf_mtx_probe(const unsigned char *head, size_t bytes) {
    const size_t mark = bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return bytes - mark >= BANNER_BYTES &&
           strncasecmp((const char *)head + mark, BANNER, BANNER_BYTES) == 0;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static char *skip_space(char *p, const char *end) {
    while (p < end && is_space(*p))
        p++;
    return p;
}

/* The words of [p, end) into word[], ended by zeros; how many, at most `most` + 1. */
static int split(char *p, char *end, char *word[], int most) {
    int count = 0;
    for (p = skip_space(p, end); p < end; p = skip_space(p, end)) {
        if (count == most)
            return most + 1;
        word[count++] = p;
        while (p < end && !is_space(*p))
            p++;
        if (p < end)
            *p++ = '\0';
    }
    *end = '\0';
    return count;
}

/* The place of word in a list that ends with NULL, or -1. */
static int find(const char *word, const char *const *list) {
    for (int i = 0; list[i] != NULL; i++)
        if (strcasecmp(word, list[i]) == 0)
            return i;
    return -1;
}

static hf_status bad_word(const char *name, const char *what, const char *word, const char *known,
                          hf_error *err) {
    return hf_fail(
        err, HF_E_DATA,
        "%s: line 1: the %s of the banner is '%.40s'; it must be %s: correct the line, or "
        "write the file again",
        name, what, word, known);
}

static hf_status set_field(struct hf_mtx_head *head, const char *word, const char *name,
                           hf_error *err) {
    static const char *const fields[] = {
        "real", "double", "integer", "pattern", "unsigned-integer", "complex", NULL};
    const int field = find(word, fields);
    if (field < 0)
        return bad_word(name, "field", word, "real, integer, pattern or complex", err);
    if (field == 5)
        return hf_fail(err, HF_E_DATA,
                       "%s: line 1: the matrix is complex, and only real ones are read; solve the "
                       "real system [Re -Im; Im Re] of twice the size instead",
                       name);
    head->integer = field == 2 || field == 4;
    head->pattern = field == 3;
    if (head->pattern && !head->coordinate)
        return hf_fail(err, HF_E_DATA,
                       "%s: line 1: an array cannot be a pattern, which has no values; write "
                       "coordinate, or real",
                       name);
    return HF_OK;
}

static hf_status set_symmetry(struct hf_mtx_head *head, const char *word, const char *name,
                              hf_error *err) {
    static const char *const symmetries[] = {"general", "symmetric", "hermitian", "skew-symmetric",
                                             NULL};
    const int symmetry = find(word, symmetries);
    if (symmetry < 0)
        return bad_word(name, "symmetry", word, "general, symmetric, skew-symmetric or hermitian",
                        err);
    static const enum hf_mirror mirrors[] = {HF_MIRROR_NONE, HF_MIRROR_SAME, HF_MIRROR_SAME,
                                             HF_MIRROR_NEGATED};
    head->mirror = mirrors[symmetry];
    head->symmetry = symmetries[symmetry == 2 ? 1 : symmetry]; /* a real hermitian one is that */
    if (symmetry == 3 && head->pattern)
        return hf_fail(err, HF_E_DATA,
                       "%s: line 1: a pattern cannot be skew-symmetric, as its values have no "
                       "sign; write symmetric or general",
                       name);
    return HF_OK;
}

static hf_status read_banner(struct hf_lines *lines, struct hf_mtx_head *head, hf_error *err) {
    const char *name = lines->in->name;
    char *line;
    char *end;
    char *word[WORDS + 1];
    HF_TRY(hf_lines_next(lines, &line, &end, err));
    const int words = line != NULL ? split(line, end, word, WORDS) : 0;
    if (words == 0 || strcasecmp(word[0], BANNER) != 0)
        return hf_fail(err, HF_E_DATA,
                       "%s: does not begin with %s, so it is no Matrix Market file; write it with "
                       "scipy.io.mmwrite",
                       name, BANNER);
    if (words != WORDS)
        return hf_fail(err, HF_E_DATA,
                       "%s: line 1: the banner has %s than five words; it must be like \"%s matrix "
                       "coordinate real general\"",
                       name, words < WORDS ? "less" : "more", BANNER);
    static const char *const layouts[] = {"coordinate", "array", NULL};
    const int layout = find(word[2], layouts);
    if (strcasecmp(word[1], "matrix") != 0)
        return bad_word(name, "object", word[1], "matrix", err);
    if (layout < 0)
        return bad_word(name, "layout", word[2], "coordinate or array", err);
    head->coordinate = layout == 0;
    HF_TRY(set_field(head, word[3], name, err));
    return set_symmetry(head, word[4], name, err);
}

/* A whole number of at most 18 digits; -1: it is none, -2: more digits. */
static int64_t whole(const char *text) {
    int64_t n = 0;
    int digits = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        n = n < INT64_MAX / 10 - 9 ? n * 10 + (*text - '0') : n;
        digits += digits > 0 || *text != '0';
    }
    return *text != '\0' ? -1 : digits > 18 ? -2 : n;
}

static hf_status check_sizes(const struct hf_mtx_head *head, const struct hf_lines *lines,
                             hf_error *err) {
    const char *name = lines->in->name;
    const long long line = lines->number;
    if (head->rows < 1 || head->cols < 1)
        return hf_fail(err, HF_E_DATA,
                       "%s: line %lld: the matrix is %lld x %lld, without elements; at least one "
                       "row and column are needed",
                       name, line, (long long)head->rows, (long long)head->cols);
    if (head->mirror != HF_MIRROR_NONE && head->rows != head->cols)
        return hf_fail(err, HF_E_DATA,
                       "%s: line %lld: the banner says %s, but the matrix is %lld x %lld; "
                       "correct one of the two",
                       name, line, head->symmetry, (long long)head->rows, (long long)head->cols);
    return HF_OK;
}

/* Elements that an array stores. */
static int64_t array_elements(const struct hf_mtx_head *head) {
    const int64_t n = head->rows;
    if (head->mirror == HF_MIRROR_NONE)
        return n * head->cols;
    return head->mirror == HF_MIRROR_SAME ? n * (n + 1) / 2 : n * (n - 1) / 2;
}

static hf_status read_sizes(struct hf_lines *lines, char *line, char *end, struct hf_mtx_head *head,
                            hf_error *err) {
    const int wanted = head->coordinate ? 3 : 2;
    int64_t size[3] = {0};
    char *word[4];
    const int words = split(line, end, word, 3);
    if (words != wanted)
        return hf_fail(err, HF_E_DATA,
                       "%s: line %lld: the line of sizes must be \"%s\"; it has %s numbers than %d",
                       lines->in->name, (long long)lines->number,
                       head->coordinate ? "ROWS COLUMNS ELEMENTS" : "ROWS COLUMNS",
                       words < wanted ? "less" : "more", wanted);
    for (int i = 0; i < wanted; i++) {
        size[i] = whole(word[i]);
        if (size[i] == -1)
            return hf_fail(err, HF_E_DATA,
                           "%s: line %lld: the size '%.40s' is not a whole number; write the file "
                           "again",
                           lines->in->name, (long long)lines->number, word[i]);
        if (size[i] == -2 || (i < 2 && size[i] > HF_SPARSE_MAX_SIZE))
            return hf_fail(err, HF_E_DATA,
                           "%s: line %lld: %.40s %s are more than the %s that can be read",
                           lines->in->name, (long long)lines->number, word[i],
                           i == 0   ? "rows"
                           : i == 1 ? "columns"
                                    : "elements",
                           i < 2 ? "2147483646" : "10^18");
    }
    head->rows = size[0];
    head->cols = size[1];
    head->elements = head->coordinate ? size[2] : array_elements(head);
    return check_sizes(head, lines, err);
}

hf_status hf_mtx_read_head(struct hf_lines *lines, struct hf_mtx_head *head, hf_error *err) {
    memset(head, 0, sizeof *head);
    HF_TRY(read_banner(lines, head, err));
    for (;;) {
        char *line;
        char *end;
        HF_TRY(hf_lines_next(lines, &line, &end, err));
        if (line == NULL)
            return hf_fail(err, HF_E_DATA,
                           "%s: ends at line %lld, before the line of sizes; the file is cut off: "
                           "write or copy it again",
                           lines->in->name, (long long)lines->number);
        char *p = skip_space(line, end);
        if (p < end && *p != '%')
            return read_sizes(lines, p, end, head, err);
    }
}
