/* SPDX-License-Identifier: Apache-2.0
 * The first iteration and block of clusters of a fit, or the first block of rows of a product, in
 * which two reports differ. */
#include "safety/replay.h"
#include <string.h>

#define DIGITS 8 /* of a block's checksum */

/* What differs first, as a sentence and for programs. */
struct finding {
    size_t iteration;     /* from 1; 0: all are the same */
    json_t *members;      /* strings: of the iteration's entry in the report */
    int64_t first, last;  /* clusters of the first block that differs; first < 0: none does */
    size_t blocks;        /* that differ */
    const char *in_block; /* "centroids", "sizes" */
};

/* The number of blocks whose checksums differ; *first: the first of them. */
static size_t differing_blocks(const char *a, const char *b, size_t *first) {
    const size_t count = strlen(a) / DIGITS;
    size_t found = 0;
    for (size_t i = 0; i < count && strlen(b) == strlen(a); i++)
        if (strncmp(a + i * DIGITS, b + i * DIGITS, DIGITS) != 0 && found++ == 0)
            *first = i;
    return found;
}

/* The sizes first: centroids are made of them. */
static void compare_digests(const json_t *a, const json_t *b, int64_t k, struct finding *f) {
    static const char *const names[] = {"sizes", "centroids"};
    for (int i = 0; i < 2; i++) {
        const char *of_a = json_string_value(json_object_get(a, names[i]));
        const char *of_b = json_string_value(json_object_get(b, names[i]));
        size_t first = 0;
        const size_t count = of_a && of_b ? differing_blocks(of_a, of_b, &first) : 0;
        if (count > 0)
            json_array_append_new(f->members, json_string(names[i]));
        if (count > 0 && f->first < 0) {
            const int64_t blocks = (int64_t)(strlen(of_a) / DIGITS);
            f->first = (int64_t)first * k / blocks;
            f->last = ((int64_t)first + 1) * k / blocks - 1;
            f->blocks = count;
            f->in_block = names[i];
        }
    }
}

/* The chain alone: it stands for all before it, so that a report was changed by hand. */
static bool chains_differ(const json_t *a, const json_t *b) {
    const json_t *of_a = json_object_get(a, "chain"), *of_b = json_object_get(b, "chain");
    return of_a && of_b && !json_equal(of_a, of_b);
}

static bool iteration_differs(const json_t *a, const json_t *b, int64_t k, struct finding *f) {
    static const char *const members[] = {"inertia", "changed", "empty", "shift"};
    for (int i = 0; i < 4; i++)
        if (!json_equal(json_object_get(a, members[i]), json_object_get(b, members[i])))
            json_array_append_new(f->members, json_string(members[i]));
    const json_t *of_a = json_object_get(a, "digest"), *of_b = json_object_get(b, "digest");
    compare_digests(of_a, of_b, k, f);
    return json_array_size(f->members) > 0;
}

static struct finding compare_iterations(const json_t *first, const json_t *second) {
    const json_t *a = json_object_get(first, "history"), *b = json_object_get(second, "history");
    const size_t count = json_array_size(a), again = json_array_size(b);
    const size_t both = count < again ? count : again;
    const int64_t k = json_integer_value(
        json_array_get(json_object_get(json_object_get(first, "result"), "centroids_shape"), 0));
    struct finding f = {.members = json_array(), .first = -1};
    bool whole = true; /* a fit that was resumed has no digest of what was before */
    for (size_t i = 0; i < both && f.iteration == 0; i++) {
        const json_t *p = json_array_get(a, i), *q = json_array_get(b, i);
        const json_t *digest = json_object_get(p, "digest");
        whole = whole && json_is_object(digest);
        if (iteration_differs(p, q, k, &f))
            f.iteration = i + 1;
        else if (whole && chains_differ(digest, json_object_get(q, "digest"))) {
            json_array_append_new(f.members, json_string("chain"));
            f.iteration = i + 1;
        }
    }
    if (f.iteration == 0 && count != again) {
        json_array_append_new(f.members, json_string("number of iterations"));
        f.iteration = both + 1;
    }
    return f;
}

/* Of the files that both wrote. */
static bool same_files(const json_t *first, const json_t *second) {
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get((json_t *)(uintptr_t)first, "files"), name, file) {
        const json_t *other = json_object_get(json_object_get(second, "files"), name);
        if (other && !json_equal(json_object_get(file, "crc32"), json_object_get(other, "crc32")))
            return false;
    }
    return true;
}

static void print_finding(const struct finding *f) {
    printf("not the same: iteration %zu is the first that differs, in its ", f->iteration);
    for (size_t i = 0; i < json_array_size(f->members); i++)
        printf("%s%s", i ? ", " : "", json_string_value(json_array_get(f->members, i)));
    if (f->first >= 0) {
        printf("; first in the %s of clusters %lld to %lld", f->in_block, (long long)f->first,
               (long long)f->last);
        if (f->blocks > 1)
            printf(" and %zu more blocks", f->blocks - 1);
    }
    putchar('\n');
}

/* Of other data nothing can be said. Data that were read in chunks have no checksum. */
static bool same_data(const json_t *first, const json_t *second, const char *member,
                      const char *advice) {
    const json_t *a = json_object_get(first, member), *b = json_object_get(second, member);
    const json_t *was = json_object_get(a, "crc32c"), *is = json_object_get(b, "crc32c");
    if (!json_is_string(was) || !json_is_string(is) || json_equal(was, is))
        return true;
    tool_error("%s holds other numbers (CRC-32C %s) than when the report was written (%s), so "
               "nothing was compared: %s",
               json_string_value(json_object_get(b, "path")), json_string_value(is),
               json_string_value(was), advice);
    return false;
}

static bool same_shape(const json_t *first, const json_t *second) {
    const json_t *a = json_object_get(first, "data"), *b = json_object_get(second, "data");
    const json_t *rows = json_object_get(a, "rows"), *columns = json_object_get(a, "columns");
    if (json_equal(rows, json_object_get(b, "rows")) &&
        json_equal(columns, json_object_get(b, "columns")))
        return true;
    tool_error("%s is %lld x %lld, but the fit of the report had %lld x %lld: give its data (%s) "
               "with --data",
               json_string_value(json_object_get(b, "path")),
               (long long)json_integer_value(json_object_get(b, "rows")),
               (long long)json_integer_value(json_object_get(b, "columns")),
               (long long)json_integer_value(rows), (long long)json_integer_value(columns),
               json_string_value(json_object_get(a, "path")));
    return false;
}

static int compare_fits(const struct replay *r, const json_t *first, const json_t *second) {
    if (!same_shape(first, second) ||
        !same_data(first, second, "data", "give the data of that time with --data"))
        return EXIT_INPUT;
    struct finding f = compare_iterations(first, second);
    const size_t count = json_array_size(json_object_get(first, "history"));
    const size_t again = json_array_size(json_object_get(second, "history"));
    const bool files = same_files(first, second);
    const bool same = f.iteration == 0 && files;
    json_t *clusters =
        f.first < 0 ? json_null() : json_pack("[I, I]", (json_int_t)f.first, (json_int_t)f.last);
    if (r->json)
        (void)tool_json_print(
            json_pack("{s:b, s:o, s:O, s:O, s:I, s:I, s:b}", "same", same, "first_iteration",
                      f.iteration ? json_integer((json_int_t)f.iteration) : json_null(), "members",
                      f.members, "clusters", clusters, "iterations", (json_int_t)count,
                      "iterations_again", (json_int_t)again, "same_files", files));
    else if (f.iteration > 0)
        print_finding(&f);
    else
        printf("%zu iterations are the same%s\n", count,
               files ? ", and so are the files" : ", but the files are not");
    json_decref(clusters);
    json_decref(f.members);
    return same ? EXIT_DONE : EXIT_CORRUPT;
}

static int compare_products(const struct replay *r, const json_t *first, const json_t *second) {
    const json_t *of_a = json_object_get(first, "blocks"),
                 *of_b = json_object_get(second, "blocks");
    const json_t *a = json_object_get(of_a, "crc32"), *b = json_object_get(of_b, "crc32");
    const int64_t rows = json_integer_value(json_object_get(of_a, "rows"));
    const int64_t m = json_integer_value(json_object_get(first, "m"));
    const json_t *chain_a = json_object_get(of_a, "chain"),
                 *chain_b = json_object_get(of_b, "chain");
    const char *advice = "put back the file of that time";
    int64_t at = -1;
    size_t wrong = 0;
    if (!same_data(first, second, "a", advice) || !same_data(first, second, "b", advice) ||
        !same_data(first, second, "add", advice))
        return EXIT_INPUT;
    if (!json_equal(json_object_get(first, "arithmetic"), json_object_get(second, "arithmetic"))) {
        tool_error("the report's product was summed as '%s', this device sums as '%s': their bits "
                   "may differ, so nothing was compared; replay it on a device of that arithmetic",
                   json_string_value(json_object_get(first, "arithmetic")),
                   json_string_value(json_object_get(second, "arithmetic")));
        return EXIT_NOT_RUN;
    }
    for (size_t i = 0; i < json_array_size(a); i++) {
        const bool same = json_equal(json_array_get(a, i), json_array_get(b, i));
        const bool linked =
            chain_a == NULL || json_equal(json_array_get(chain_a, i), json_array_get(chain_b, i));
        if (at < 0 && (!same || !linked))
            at = (int64_t)i * rows;
        wrong += !same;
    }
    if (at >= 0 && wrong == 0) /* a chain that was changed by hand */
        wrong = 1;
    const int64_t last = at + rows < m ? at + rows - 1 : m - 1;
    json_t *where = wrong ? json_pack("[I, I]", (json_int_t)at, (json_int_t)last) : json_null();
    if (r->json)
        (void)tool_json_print(json_pack("{s:b, s:O, s:I}", "same", wrong == 0, "rows", where,
                                        "blocks_that_differ", (json_int_t)wrong));
    else if (wrong == 0)
        printf("all %lld rows of the product are the same\n", (long long)m);
    else
        printf("not the same: rows %lld to %lld of the product are the first that differ, in %zu "
               "of %zu blocks\n",
               (long long)at, (long long)last, wrong, json_array_size(a));
    json_decref(where);
    return wrong ? EXIT_CORRUPT : EXIT_DONE;
}

int replay_compare(const struct replay *r, const json_t *first, const json_t *second) {
    return replay_is_product(first) ? compare_products(r, first, second)
                                    : compare_fits(r, first, second);
}
