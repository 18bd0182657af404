/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv/columns.h"

#include "base/mem.h"
#include "io/csv/number.h"

#include <string.h>

/* An item of a list: text between commas, without blanks and quotes around it. */
struct item {
    const char *text; /* quotes inside are still doubled */
    size_t bytes;
    bool quoted, bad; /* bad: a quote is not closed, or something follows it */
};

/* The item at *list, which moves behind its comma, or to NULL after the last one. */
static struct item next_item(const char **list) {
    struct item it = {0};
    const char *p = *list + strspn(*list, " ");
    it.quoted = *p == '"';
    it.text = p + it.quoted;
    if (it.quoted) {
        for (p++; *p != '\0' && (*p != '"' || p[1] == '"'); p++)
            p += *p == '"';
        it.bytes = (size_t)(p - it.text);
        it.bad = *p != '"';
        p += !it.bad;
        p += strspn(p, " ");
        it.bad |= *p != ',' && *p != '\0';
    }
    p += strcspn(p, ",");
    if (!it.quoted)
        for (it.bytes = (size_t)(p - it.text); it.bytes > 0 && it.text[it.bytes - 1] == ' ';)
            it.bytes--;
    *list = *p == ',' ? p + 1 : NULL;
    return it;
}

/* A number of a column; one beyond all files stays so. -1: no digit. */
static int64_t take_number(const char **p, const char *end) {
    int64_t v = *p < end && **p >= '0' && **p <= '9' ? 0 : -1;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
        v = v < INT64_MAX / 16 ? v * 10 + (**p - '0') : v;
    return v;
}

/* Columns [first, last], from 1; last is INT64_MAX where the range is open. */
struct range {
    int64_t first, last;
};

/* False: the item is a name. */
static bool take_range(const struct item *it, struct range *r) {
    const char *p = it->text;
    const char *end = p + it->bytes;
    if (it->quoted)
        return false;
    r->first = take_number(&p, end);
    r->last = r->first;
    const bool dash = p < end && *p == '-';
    if (dash) {
        p++;
        r->last = take_number(&p, end);
    }
    if (p < end || (r->first < 0 && r->last < 0))
        return false;
    r->first = r->first < 0 ? 1 : r->first;
    r->last = r->last < 0 ? INT64_MAX : r->last;
    return true;
}

static hf_status check_item(const struct item *it, const char *option, bool columns,
                            hf_error *err) {
    struct range r = {1, 1};
    const int bytes = it->bytes < 60 ? (int)it->bytes : 60;
    if (it->bad)
        return hf_fail(err, HF_E_ARG,
                       "%s: the quotes around \"%.*s are not as they should be: "
                       "write \"name\", and commas between items",
                       option, bytes, it->text);
    if (it->bytes == 0)
        return hf_fail(err, HF_E_ARG, "%s: an item of the list is empty; write %s", option,
                       columns ? "columns such as 2,5-9,age" : "values such as -9999,?");
    if (!columns || !take_range(it, &r))
        return HF_OK;
    if (r.first == 0 || r.last == 0)
        return hf_fail(err, HF_E_ARG, "%s: %.*s: columns are counted from 1", option, bytes,
                       it->text);
    if (r.first > r.last)
        return hf_fail(err, HF_E_ARG, "%s: %.*s: a range goes from the lower number to the higher",
                       option, bytes, it->text);
    return HF_OK;
}

static hf_status check_list(const char *list, const char *option, bool columns, hf_error *err) {
    while (list != NULL) {
        const struct item it = next_item(&list);
        HF_TRY(check_item(&it, option, columns, err));
    }
    return HF_OK;
}

hf_status hf_columns_check(const char *columns, const char *skip, const char *missing,
                           hf_error *err) {
    HF_TRY(check_list(columns, "opts.columns", true, err));
    HF_TRY(check_list(skip, "opts.skip_columns", true, err));
    return check_list(missing, "opts.missing", false, err);
}

bool hf_columns_named(const char *list) {
    struct range r;
    while (list != NULL) {
        const struct item it = next_item(&list);
        if (!take_range(&it, &r))
            return true;
    }
    return false;
}

/* Is the item, whose quotes are doubled, this name? */
static bool is_name(const struct item *it, const char *name) {
    const char *p = it->text;
    for (; p < it->text + it->bytes; p++, name++) {
        if (*p != *name)
            return false;
        p += it->quoted && *p == '"';
    }
    return *name == '\0';
}

static hf_status find_name(const struct hf_columns *c, const struct item *it, const char *option,
                           int64_t *found, hf_error *err) {
    const int bytes = it->bytes < 60 ? (int)it->bytes : 60;
    *found = -1;
    if (c->names == NULL)
        return hf_fail(err, HF_E_DATA,
                       "%s: %s '%.*s': it has no header, so no column has a name; "
                       "write numbers from 1",
                       c->file, option, bytes, it->text);
    for (int64_t j = 0; j < c->total; j++) {
        if (!is_name(it, c->names[j]))
            continue;
        if (*found >= 0)
            return hf_fail(err, HF_E_DATA,
                           "%s: %s '%.*s': columns %lld and %lld both have that name; write a "
                           "number",
                           c->file, option, bytes, it->text, (long long)*found + 1,
                           (long long)j + 1);
        *found = j;
    }
    if (*found >= 0)
        return HF_OK;
    return hf_fail(err, HF_E_DATA,
                   "%s: %s '%.*s': no column has that name; the header has '%.40s'%s%.40s%s%s",
                   c->file, option, bytes, it->text, c->names[0], c->total > 1 ? ", '" : "",
                   c->total > 1 ? c->names[1] : "", c->total > 1 ? "'" : "",
                   c->total > 2 ? " and others" : "");
}

static bool has_name(const struct hf_columns *c, const struct item *it) {
    for (int64_t j = 0; c->names != NULL && j < c->total; j++)
        if (is_name(it, c->names[j]))
            return true;
    return false;
}

static hf_status find_range(const struct hf_columns *c, const struct item *it, const char *option,
                            struct range *r, hf_error *err) {
    const bool open = r->last == INT64_MAX;
    const int bytes = it->bytes < 60 ? (int)it->bytes : 60;
    r->last = open ? c->total : r->last;
    if (r->first <= c->total && r->last <= c->total)
        return HF_OK;
    return hf_fail(err, HF_E_DATA, "%s: %s %.*s: there is no such column, its rows have %lld%s",
                   c->file, option, bytes, it->text, (long long)c->total,
                   has_name(c, it) ? "; to mean the name, put it into double quotes" : "");
}

/* A list that is being taken. */
struct choice {
    const struct hf_columns *c;
    const char *option;
    unsigned char *mark; /* [total] 1: in the list */
    int64_t *list;       /* NULL: marks are all that is wanted */
    int64_t count;
};

static hf_status take_list(struct choice *ch, const char *list, hf_error *err) {
    while (list != NULL) {
        const struct item it = next_item(&list);
        struct range r;
        int64_t found = -1;
        if (take_range(&it, &r)) {
            HF_TRY(find_range(ch->c, &it, ch->option, &r, err));
        } else {
            HF_TRY(find_name(ch->c, &it, ch->option, &found, err));
            r = (struct range){found + 1, found + 1};
        }
        for (int64_t j = r.first - 1; j < r.last; j++) {
            if (ch->mark[j] && ch->list != NULL)
                return hf_fail(err, HF_E_DATA,
                               "%s: %s: column %lld is in the list twice; a column "
                               "counts once",
                               ch->c->file, ch->option, (long long)j + 1);
            ch->mark[j] = 1;
            if (ch->list != NULL)
                ch->list[ch->count++] = j;
        }
    }
    return HF_OK;
}

static hf_status choose(const struct hf_columns *c, unsigned char *mark, int64_t *list,
                        int64_t *count, hf_error *err) {
    struct choice keep = {c, "opts.columns", mark, list, 0};
    struct choice skip = {c, "opts.skip_columns", mark, NULL, 0};
    HF_TRY(take_list(&keep, c->keep, err));
    for (int64_t j = 0; c->keep == NULL && j < c->total; j++)
        list[keep.count++] = j;
    memset(mark, 0, (size_t)c->total);
    HF_TRY(take_list(&skip, c->skip, err));
    int64_t kept = 0;
    for (int64_t i = 0; i < keep.count; i++)
        if (!mark[list[i]])
            list[kept++] = list[i];
    if (kept == 0)
        return hf_fail(err, HF_E_DATA,
                       "%s: opts.skip_columns %s: no column is left; leave out "
                       "fewer",
                       c->file, c->skip);
    *count = kept;
    return HF_OK;
}

hf_status hf_columns_choose(const struct hf_columns *c, int64_t **list, int64_t *count,
                            hf_error *err) {
    unsigned char *mark = hf_alloc_zero((size_t)c->total);
    int64_t *chosen = hf_alloc((size_t)c->total * sizeof *chosen);
    const hf_status status =
        mark == NULL || chosen == NULL
            ? hf_fail(err, HF_E_NOMEM, "%s: no memory for its columns", c->file)
            : choose(c, mark, chosen, count, err);
    hf_free(mark);
    if (status != HF_OK)
        hf_free(chosen);
    else
        *list = chosen;
    return status;
}

hf_status hf_missing_list(const char *list, struct hf_missing **values, int64_t *count,
                          hf_error *err) {
    *values = NULL;
    *count = 0;
    if (list == NULL)
        return HF_OK;
    size_t most = 1;
    for (const char *p = list; *p != '\0'; p++)
        most += *p == ',';
    const size_t bytes = most * sizeof **values;
    struct hf_missing *v = hf_alloc(bytes + strlen(list) + most);
    if (v == NULL)
        return hf_fail(err, HF_E_NOMEM, "no memory for opts.missing");
    char *text = (char *)v + bytes;
    for (*values = v; list != NULL; v++, ++*count) {
        const struct item it = next_item(&list);
        bool named;
        v->text = text;
        for (size_t i = 0; i < it.bytes; i++) {
            *text++ = it.text[i];
            i += it.quoted && it.text[i] == '"';
        }
        *text = '\0';
        v->is_number = hf_parse_number(v->text, text, &v->value, &named) && !named;
        text++;
    }
    return HF_OK;
}
