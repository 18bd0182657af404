/* SPDX-License-Identifier: Apache-2.0
 * Rows in memory, read in chunks, with and without dropped ones: always the same sequence. */
#include "unit.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "base/rng.h"
#include "rows/rows.h"

#include <string.h>

#define TOTAL 101
#define COLS 3
#define STRIDE 5

/* Element (i, j) holds 10 i + j, so that a row tells its number. */
static float data[TOTAL * STRIDE];

struct reader {
    int64_t calls, fail_at; /* the call that fails; 0: none */
    int status;             /* it returns; 0: HF_E_IO, with words */
};

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    struct reader *reader = user;
    assert_true(first >= 0 && count > 0 && first + count <= TOTAL);
    if (++reader->calls == reader->fail_at && reader->status != 0)
        return (hf_status)reader->status;
    if (reader->calls == reader->fail_at) {
        (void)snprintf(message, message_bytes, "the cable is loose");
        return HF_E_IO;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy((float *)dst + i * COLS, data + (first + i) * STRIDE, COLS * sizeof(float));
    return HF_OK;
}

struct want {
    int64_t kept[TOTAL]; /* numbers of the rows that take part */
    int64_t n, chunk_rows, next, stop_at;
};

static hf_status check_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct want *want = job;
    assert_int_equal(first, want->next);
    assert_int_equal(first % want->chunk_rows, 0);
    assert_int_equal(chunk->cols, COLS);
    /* every chunk but the last is full */
    const int64_t left = want->n - first;
    assert_int_equal(chunk->rows, left < want->chunk_rows ? left : want->chunk_rows);
    for (int64_t i = 0; i < chunk->rows; i++) {
        const float *row = (const float *)chunk->data + i * chunk->row_stride;
        for (int j = 0; j < COLS; j++)
            assert_true(row[j] == (float)(10 * want->kept[first + i] + j));
    }
    want->next = first + chunk->rows;
    return want->next >= want->stop_at ? HF_E_CANCELLED : HF_OK;
}

/* What of the rows is dropped: none, the first, the last, every other, all but one, some. */
static int64_t choose_dropped(int pattern, int64_t *dropped, struct want *want) {
    int64_t count = 0;
    want->n = 0;
    for (int64_t i = 0; i < TOTAL; i++) {
        const int drop = (pattern == 1 && i == 0) || (pattern == 2 && i == TOTAL - 1) ||
                         (pattern == 3 && i % 2 == 0) || (pattern == 4 && i != 57) ||
                         (pattern == 5 && hf_rng_bits(1, 2, (uint64_t)i) % 3 == 0);
        if (drop)
            dropped[count++] = i;
        else
            want->kept[want->n++] = i;
    }
    return count;
}

static void check_gather(const struct hf_rows *rows, const struct want *want) {
    int64_t index[TOTAL];
    double *got = hf_alloc(TOTAL * COLS * sizeof *got);
    for (int64_t i = 0; i < want->n; i++)
        index[i] = (int64_t)hf_rng_permute(3, 4, (uint64_t)want->n, (uint64_t)i);
    assert_int_equal(hf_rows_gather(rows, index, want->n, got), HF_OK);
    for (int64_t i = 0; i < want->n; i++)
        for (int j = 0; j < COLS; j++)
            assert_true(got[i * COLS + j] == (double)(10 * want->kept[index[i]] + j));
    hf_free(got);
}

static void same_sequence(void **state) {
    hf_context *ctx = *state;
    static const int64_t chunks[] = {1, 2, 7, 50, 100, 101, 1000};
    const hf_array array = {data, HF_F32, TOTAL, COLS, STRIDE};
    int64_t dropped[TOTAL];
    for (int pattern = 0; pattern <= 5; pattern++) {
        struct want want = {.stop_at = INT64_MAX};
        const int64_t count = choose_dropped(pattern, dropped, &want);
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            struct reader reader = {0, 0, 0};
            const hf_source source = {TOTAL, COLS, HF_F32, read_rows, &reader};
            void *buffer = hf_alloc((size_t)chunks[c] * COLS * sizeof(float));
            for (int streamed = 0; streamed < 2; streamed++) {
                const struct hf_rows rows = {ctx,
                                             streamed ? NULL : &array,
                                             streamed ? &source : NULL,
                                             want.n,
                                             COLS,
                                             HF_F32,
                                             chunks[c],
                                             buffer,
                                             dropped,
                                             count,
                                             NULL};
                want.chunk_rows = chunks[c];
                want.next = 0;
                assert_int_equal(hf_rows_each(&rows, check_chunk, &want), HF_OK);
                assert_int_equal(want.next, want.n);
                check_gather(&rows, &want);
            }
            hf_free(buffer);
        }
    }
}

/* A failure of the reader or of the job ends the walk and is handed on. */
static void failures(void **state) {
    hf_context *ctx = *state;
    float buffer[7 * COLS];
    int64_t none[TOTAL];
    struct want want = {.stop_at = INT64_MAX, .chunk_rows = 7};
    struct reader reader = {0, 3, 0};
    const hf_source source = {TOTAL, COLS, HF_F32, read_rows, &reader};
    const struct hf_rows rows = {ctx, NULL, &source, TOTAL, COLS, HF_F32, 7, buffer, NULL, 0, NULL};
    (void)choose_dropped(0, none, &want);
    assert_int_equal(hf_rows_each(&rows, check_chunk, &want), HF_E_IO);
    assert_int_equal(want.next, 14);
    assert_string_equal(hf_last_error(ctx), "reading rows 14 to 20: the cable is loose");
    reader = (struct reader){0, 1, 0};
    double row[COLS];
    assert_int_equal(hf_rows_gather(&rows, &(int64_t){5}, 1, row), HF_E_IO);
    assert_string_equal(hf_last_error(ctx), "reading row 5: the cable is loose");
    for (int status = -1; status <= 77; status += 78) {
        char words[100];
        (void)snprintf(words, sizeof words,
                       "reading row 5: the source returned %d, which is no hf_status", status);
        reader = (struct reader){0, 1, status};
        assert_int_equal(hf_rows_gather(&rows, &(int64_t){5}, 1, row), HF_E_IO);
        assert_string_equal(hf_last_error(ctx), words);
    }
    want.next = 0;
    want.stop_at = 21;
    assert_int_equal(hf_rows_each(&rows, check_chunk, &want), HF_E_CANCELLED);
    assert_int_equal(want.next, 21);
}

static int set_up(void **state) {
    for (int i = 0; i < TOTAL * STRIDE; i++)
        data[i] = (float)(i % STRIDE < COLS ? i / STRIDE * 10 + i % STRIDE : -1);
    return hf_context_create((hf_context **)state, NULL) == HF_OK ? 0 : -1;
}

static int tear_down(void **state) {
    hf_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_sequence),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
