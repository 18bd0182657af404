/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv/csv_head.h"

#include "base/dtype.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static int64_t count_fields(char delimiter, char *p, const char *end) {
    struct hf_field f;
    int64_t count = 1;
    while (hf_field_next(delimiter, &p, end, &f))
        count++;
    return count;
}

/* Copies of the fields, doubled quotes made single, behind the list that points to them. */
static char **copy_names(const struct hf_csv_head *head, char *p, const char *end) {
    const size_t list = (size_t)head->fields * sizeof(char *);
    char **names = hf_alloc(list + (size_t)(end - p) + (size_t)head->fields);
    char *text = (char *)names + list;
    struct hf_field f;
    for (int64_t j = 0; names != NULL && j < head->fields; j++) {
        (void)hf_field_next(head->delimiter, &p, end, &f);
        names[j] = text;
        for (const char *c = f.begin; c < f.end; c++) {
            *text++ = *c;
            c += *c == '"' && c + 1 < f.end && c[1] == '"';
        }
        *text++ = '\0';
    }
    return names;
}

static hf_status choose(struct hf_csv_head *head, const struct hf_csv_wish *wish, const char *file,
                        hf_error *err) {
    const struct hf_columns from = {wish->columns, wish->skip_columns, file,
                                    (const char *const *)head->names, head->fields};
    HF_TRY(hf_columns_choose(&from, &head->columns, &head->cols, err));
    head->slot = hf_alloc((size_t)head->fields * sizeof *head->slot);
    if (head->slot == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for its columns", file);
    for (int64_t j = 0; j < head->fields; j++)
        head->slot[j] = -1;
    for (int64_t i = 0; i < head->cols; i++)
        head->slot[head->columns[i]] = i;
    return HF_OK;
}

/* What the chosen fields of a line hold. */
struct kinds {
    int64_t numbers, texts, missing;
    bool whole; /* digits alone */
    bool even;  /* the same step from each to the next */
    bool years; /* ascending, of our time */
    double first, last, step;
};

static void count_number(struct kinds *k, const struct hf_field *f, double v) {
    const double step = v - k->last;
    k->whole = k->whole && hf_field_is_whole(f);
    k->even = k->even && (k->numbers < 2 || step == k->step);
    k->years = k->years && v >= 1800 && v <= 2200 && (k->numbers == 0 || step > 0);
    k->first = k->numbers == 0 ? v : k->first;
    k->step = step;
    k->last = v;
    k->numbers++;
}

static struct kinds count_kinds(const struct hf_csv_head *head, const struct hf_csv_wish *wish,
                                char *p, const char *end) {
    struct kinds k = {.whole = true, .even = true, .years = true};
    struct hf_field f;
    for (int64_t j = 0; j < head->fields; j++) {
        double v;
        (void)hf_field_next(head->delimiter, &p, end, &f);
        if (head->slot[j] < 0)
            continue;
        switch (hf_field_read(&f, wish->missing, wish->missing_count, &v)) {
        case HF_FIELD_NUMBER:
            count_number(&k, &f, v);
            break;
        case HF_FIELD_NAMED:
            k.numbers++;
            k.whole = false;
            break;
        case HF_FIELD_MISSING:
            k.missing++;
            break;
        case HF_FIELD_TEXT:
            k.texts++;
            break;
        }
    }
    return k;
}

/* Numbers such as 0, 1, 2 or 2019, 2020 are what programs and people name columns; two numbers
 * always are an even run, so two must be neighbours. */
static bool is_run(const struct kinds *k) {
    if (k->numbers < 2 || k->missing > 0 || k->texts > 0 || !k->whole)
        return false;
    if (k->years)
        return true;
    return k->even && (k->numbers > 2 ? k->step != 0 : fabs(k->step) == 1);
}

hf_status hf_csv_head_take(struct hf_csv_head *head, const struct hf_csv_wish *wish,
                           const char *file, char *line, char *end, hf_error *err) {
    const bool named = hf_columns_named(wish->columns) || hf_columns_named(wish->skip_columns);
    *head = (struct hf_csv_head){.delimiter = hf_delimiter_find(line, end)};
    head->fields = count_fields(head->delimiter, line, end);
    head->is_header = wish->header == HF_HEADER_YES || (wish->header == HF_HEADER_AUTO && named);
    if (head->is_header) {
        head->names = copy_names(head, line, end);
        if (head->names == NULL)
            return hf_fail(err, HF_E_NOMEM, "%s: no memory for its header", file);
        return choose(head, wish, file, err);
    }
    HF_TRY(choose(head, wish, file, err));
    const struct kinds k = count_kinds(head, wish, line, end);
    if (wish->header == HF_HEADER_NO)
        return HF_OK;
    head->is_header = k.texts > 0 && k.numbers == 0;
    head->maybe = is_run(&k);
    if (!head->is_header)
        return HF_OK;
    head->names = copy_names(head, line, end);
    return head->names != NULL ? HF_OK
                               : hf_fail(err, HF_E_NOMEM, "%s: no memory for its header", file);
}

void hf_csv_head_clear(struct hf_csv_head *head) {
    hf_free(head->columns);
    hf_free(head->slot);
    hf_free(head->names);
    *head = (struct hf_csv_head){0};
}

/* Have the values below fractions, or are they farther away than from each other? */
static bool is_odd(const hf_array *rows, int64_t j) {
    const double top = hf_load_f64(rows->data, rows->dtype, j);
    double low = HUGE_VAL;
    double high = -HUGE_VAL;
    for (int64_t i = 1; i < rows->rows; i++) {
        const double v = hf_load_f64(rows->data, rows->dtype, i * rows->cols + j);
        if (isfinite(v) && v != floor(v))
            return true;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    const double range = high - low;
    return range > 0 && (low - top > range || top - high > range);
}

bool hf_csv_head_odd(const struct hf_csv_head *head, const hf_array *rows) {
    int64_t odd = 0;
    for (int64_t j = 0; head->maybe && rows->rows > 1 && j < rows->cols; j++)
        odd += is_odd(rows, j);
    return 2 * odd > rows->cols;
}
