/* SPDX-License-Identifier: Apache-2.0
 * One line of text describes a fault: words key=value with blanks between them. */
#include "base/compiler.h"
#include "harness/inject/fault.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum hf_fault_act act;
} acts[HF_ACT_COUNT] = {
#define ACT(NAME, name, text) {#name, HF_ACT_##NAME},
#include "harness/inject/acts.def"
#undef ACT
};

/* A line that is read. */
struct reader {
    struct hf_fault_site *site;
    char where[32];       /* the place's name: needs op */
    bool has_act, has_op; /* so far */
    bool has_mask, has_value, has_when, has_word;
    char *why;
    size_t why_bytes;
};

static bool PRINTF_LIKE(2, 3) refuse(const struct reader *r, const char *fmt, ...);

static bool refuse(const struct reader *r, const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    (void)vsnprintf(r->why, r->why_bytes, fmt, list);
    va_end(list);
    return false;
}

static bool read_count(const struct reader *r, const char *key, const char *text, int64_t least,
                       int64_t *out) {
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v < least)
        return refuse(r, "%s=%s: a whole number from %" PRId64 " on is needed", key, text, least);
    *out = v;
    return true;
}

static bool read_bits(const struct reader *r, const char *key, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-')
        return refuse(r, "%s=%s: a number of 64 bits is needed, such as 0x400", key, text);
    *out = v;
    return true;
}

static bool read_op(struct reader *r, const char *text) {
    r->site->op = hf_op_find(text);
    r->has_op = true;
    if (r->site->op < 0)
        return refuse(r, "op=%s: there is no such op; 'holdfast info' lists them", text);
    if (!hf_op_places_at(r->site->op)->arrays)
        return refuse(r,
                      "op=%s: no places of it are known to strike; 'holdfast inject kmeans --list' "
                      "lists them",
                      text);
    return true;
}

static bool read_act(struct reader *r, const char *text) {
    for (int i = 0; i < HF_ACT_COUNT; i++)
        if (strcmp(text, acts[i].name) == 0) {
            r->site->act = acts[i].act;
            r->has_act = true;
            return true;
        }
    return refuse(r,
                  "do=%s: one of flip, stuck0, stuck1, carry, replace, nan, skip, duplicate and "
                  "stale is needed",
                  text);
}

static bool read_either(const struct reader *r, const char *key, const char *text,
                        const char *const name[2], bool *second) {
    *second = strcmp(text, name[1]) == 0;
    if (!*second && strcmp(text, name[0]) != 0)
        return refuse(r, "%s=%s: %s or %s is needed", key, text, name[0], name[1]);
    return true;
}

static bool read_name(const struct reader *r, const char *key, const char *text, char *out,
                      size_t bytes) {
    if (*text == '\0' || strlen(text) >= bytes)
        return refuse(r, "%s=%s: a name of 1 to %zu letters is needed", key, text, bytes - 1);
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool read_word(struct reader *r, const char *key, const char *text) {
    static const char *const when[2] = {"before", "after"};
    static const char *const repeat[2] = {"once", "always"};
    struct hf_fault_site *site = r->site;
    const struct {
        const char *key;
        int64_t least;
        int64_t *out;
    } counts[] = {{"iteration", 1, &site->iteration}, {"row", 0, &site->row},
                  {"column", 0, &site->column},       {"step", 0, &site->step},
                  {"worker", 0, &site->worker},       {"lane", 0, &site->lane},
                  {"word", 0, &site->word},           {"hit", 1, &site->hit}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(key, counts[i].key) == 0) {
            r->has_word = r->has_word || counts[i].out == &site->word;
            return read_count(r, key, text, counts[i].least, counts[i].out);
        }
    if (strcmp(key, "op") == 0)
        return read_op(r, text);
    if (strcmp(key, "do") == 0)
        return read_act(r, text);
    if (strcmp(key, "where") == 0)
        return read_name(r, key, text, r->where, sizeof r->where);
    if (strcmp(key, "kernel") == 0)
        return read_name(r, key, text, site->kernel, sizeof site->kernel);
    if (strcmp(key, "mask") == 0) {
        r->has_mask = true;
        return read_bits(r, key, text, &site->mask);
    }
    if (strcmp(key, "value") == 0) {
        r->has_value = true;
        return read_bits(r, key, text, &site->value);
    }
    if (strcmp(key, "when") == 0) {
        r->has_when = true;
        return read_either(r, key, text, when, &site->after);
    }
    if (strcmp(key, "repeat") == 0)
        return read_either(r, key, text, repeat, &site->always);
    return refuse(r,
                  "there is no key '%s'; op, where, do, kernel, iteration, row, column, step, "
                  "worker, lane, word, hit, mask, value, when and repeat are known",
                  key);
}

/* What the keys demand of each other. */
static bool check_keys(const struct reader *r, const struct hf_place *place) {
    const struct hf_fault_site *site = r->site;
    const enum hf_fault_act act = site->act;
    const bool masked = act <= HF_ACT_CARRY;
    if (masked && (!r->has_mask || site->mask == 0))
        return refuse(r, "do=%s needs the bits, such as mask=0x400", acts[act].name);
    if (!masked && r->has_mask)
        return refuse(r, "mask= means nothing with do=%s: leave it out", acts[act].name);
    if ((act == HF_ACT_REPLACE) != r->has_value)
        return refuse(r, "value= and do=replace need each other");
    if (place->bytes == 4 && (site->mask | site->value) >> 32 != 0)
        return refuse(r, "where=%s has 32 bits: mask and value must fit", r->where);
    if (place->kind == HF_PLACE_ARRAY)
        return r->has_word || act == HF_ACT_STALE
                   ? true
                   : refuse(r, "where=%s is an array: say which of its elements, such as word=0",
                            r->where);
    if (r->has_word || r->has_when)
        return refuse(r, "word= and when= are for arrays; where=%s is none", r->where);
    return true;
}

static bool conclude(struct reader *r) {
    struct hf_place place;
    struct hf_fault_site *site = r->site;
    if (!r->has_op || !r->where[0] || !r->has_act)
        return refuse(r, "op=, where= and do= are needed, such as op=assign where=score mask=0x400 "
                         "do=flip");
    if (!hf_place_find(site->op, r->where, &place))
        return refuse(
            r, "where=%s: op %s has no such place; 'holdfast inject kmeans --list' lists them",
            r->where, hf_op_at(site->op)->name);
    if (!hf_place_takes(&place, site->act))
        return refuse(r, "do=%s makes no sense for where=%s of op %s", acts[site->act].name,
                      r->where, hf_op_at(site->op)->name);
    site->kind = place.kind;
    site->place = place.place;
    return check_keys(r, &place);
}

bool hf_fault_parse(const char *line, struct hf_fault_site *site, char *why, size_t why_bytes) {
    struct reader r = {.site = site, .why = why, .why_bytes = why_bytes};
    char copy[HF_FAULT_TEXT];
    char *rest = copy;
    *site = (struct hf_fault_site){
        .row = -1, .column = -1, .step = -1, .worker = -1, .lane = -1, .hit = 1};
    if (strlen(line) >= sizeof copy)
        return refuse(&r, "the line has %zu characters, %zu are the most", strlen(line),
                      sizeof copy - 1);
    memcpy(copy, line, strlen(line) + 1);
    for (int number = 1;; number++) {
        char *word = strtok_r(rest, " \t\r\n", &rest);
        if (!word)
            break;
        char *equals = strchr(word, '=');
        if (!equals || equals == word)
            return refuse(&r, "word %d, '%s': key=value is needed", number, word);
        *equals = '\0';
        if (!read_word(&r, word, equals + 1))
            return false;
    }
    return conclude(&r);
}

static void add_number(char *text, const char *key, int64_t v, int64_t none) {
    const size_t used = strlen(text);
    if (v != none)
        (void)snprintf(text + used, HF_FAULT_TEXT - used, " %s=%" PRId64, key, v);
}

static void add_bits(char *text, const char *key, uint64_t v) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, HF_FAULT_TEXT - used, " %s=0x%" PRIx64, key, v);
}

static void add_name(char *text, const char *key, const char *v) {
    const size_t used = strlen(text);
    if (*v)
        (void)snprintf(text + used, HF_FAULT_TEXT - used, " %s=%s", key, v);
}

static const char *place_name(const struct hf_fault_site *site) {
    struct hf_place place;
    for (int i = 0; hf_place_at(site->op, i, &place); i++)
        if (place.kind == site->kind && (place.kind == HF_PLACE_CALL || place.place == site->place))
            return place.name;
    return "";
}

void hf_fault_text(const struct hf_fault_site *site, char text[HF_FAULT_TEXT]) {
    (void)snprintf(text, HF_FAULT_TEXT, "op=%s where=%s", hf_op_at(site->op)->name,
                   place_name(site));
    add_name(text, "kernel", site->kernel);
    add_number(text, "iteration", site->iteration, 0);
    add_number(text, "row", site->row, -1);
    add_number(text, "column", site->column, -1);
    add_number(text, "step", site->step, -1);
    add_number(text, "worker", site->worker, -1);
    add_number(text, "lane", site->lane, -1);
    if (site->kind == HF_PLACE_ARRAY && site->act != HF_ACT_STALE)
        add_number(text, "word", site->word, -1);
    add_number(text, "hit", site->hit, 1);
    if (site->act <= HF_ACT_CARRY)
        add_bits(text, "mask", site->mask);
    if (site->act == HF_ACT_REPLACE)
        add_bits(text, "value", site->value);
    if (site->after)
        add_name(text, "when", "after");
    add_name(text, "do", acts[site->act].name);
    if (site->always)
        add_name(text, "repeat", "always");
}
