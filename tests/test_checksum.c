/* SPDX-License-Identifier: Apache-2.0
 * The catalogue of checksums: known values, zlib, both forms, and how values change. */
#include "unit.h"

#include "base/checksum/checksum.h"
#include "base/file.h"
#include "base/rng.h"

#include <string.h>
#include <zlib.h>

#define WORDS 5000

static uint32_t words[WORDS];

static void fill_words(uint64_t seed) {
    struct hf_rng rng = {seed, 5, 0};
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint32_t)hf_rng_next(&rng);
}

static uint64_t by_reference(int id, const uint32_t *w, int64_t count) {
    const struct hf_checksum_info *info = hf_checksum_at(id);
    struct hf_checksum s;
    info->begin(&s);
    for (int64_t i = 0; i < count; i++)
        info->step(&s, w[i]);
    return info->value(&s);
}

/* Text as little-endian words, zeros after its end. */
static int64_t text_words(const char *text, uint32_t *w) {
    const int64_t count = (int64_t)(strlen(text) + 3) / 4;
    memset(w, 0, (size_t)count * 4);
    for (size_t i = 0; i < strlen(text); i++)
        w[i / 4] |= (uint32_t)(unsigned char)text[i] << i % 4 * 8;
    return count;
}

static void test_known(void **state) {
    (void)state;
    static const struct {
        int id;
        const char *text;
        uint64_t value;
    } known[] = {
        {HF_CHECKSUM_FLETCHER, "abcde", 0xc8c6c527646362c6},
        {HF_CHECKSUM_FLETCHER, "abcdef", 0xc8c72b276463c8c6},
        {HF_CHECKSUM_FLETCHER, "abcdefgh", 0x312e2b28cccac8c6},
        {HF_CHECKSUM_CRC32, "12345678", 0x9ae0daaf},
        {HF_CHECKSUM_CRC32C, "12345678", 0x6087809a},
        {HF_CHECKSUM_XOR, "abcdefgh", 0x0c040404},
        {HF_CHECKSUM_TWOS, "abcdefgh", 0xcccac8c6},
        {HF_CHECKSUM_ONES_SUM, "abcdefgh", 0xcccac8c6},
        {HF_CHECKSUM_ONES, "abcd", 0x9b9c9d9e},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t w[8];
        const int64_t count = text_words(known[i].text, w);
        if (hf_checksum_of(known[i].id, w, count) != known[i].value)
            fail_msg("%s of %s is %llx", hf_checksum_at(known[i].id)->name, known[i].text,
                     (unsigned long long)hf_checksum_of(known[i].id, w, count));
    }
}

static void test_zlib(void **state) {
    (void)state;
    fill_words(1);
    for (int64_t count = 0; count < WORDS; count += 1 + count / 3)
        assert_int_equal(by_reference(HF_CHECKSUM_CRC32, words, count),
                         crc32_z(0, (const unsigned char *)words, (size_t)count * 4));
}

static const uint32_t extremes[] = {0, 0xffffffff, 0x80000000, 1, 0x7fffffff};

/* CRC-32C of every length about those from which it is computed in other ways, and any register. */
static void test_lengths(void **state) {
    (void)state;
    fill_words(5);
    for (int64_t count = 0; count < WORDS; count += count < 700 ? 1 : 97)
        for (int64_t first = 0; first < 3 && first + count <= WORDS; first++) {
            const uint32_t crc = words[count];
            assert_int_equal(hf_crc32c_words(crc, words + first, count),
                             hf_crc32c(crc, words + first, (size_t)count * sizeof *words));
        }
}

/* Any split into calls and steps gives what the reference gives, also for extreme words. */
static void test_forms(void **state) {
    (void)state;
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++) {
        const struct hf_checksum_info *info = hf_checksum_at(id);
        for (int kind = 0; kind < 7; kind++) {
            fill_words(2);
            for (int i = 0; kind < 5 && i < WORDS; i++)
                words[i] = extremes[kind];
            for (int i = 0; kind == 5 && i < WORDS; i++)
                words[i] = extremes[i % 5];
            struct hf_checksum s;
            info->begin(&s);
            int64_t done = 0;
            for (int64_t part = 0; done + part <= WORDS; part += 1 + part / 2) {
                info->words(&s, words + done, part);
                done += part;
                if (done < WORDS)
                    info->step(&s, words[done++]);
            }
            assert_int_equal(info->value(&s), by_reference(id, words, done));
            assert_int_equal(hf_checksum_of(id, words, WORDS), by_reference(id, words, WORDS));
        }
    }
}

/* Each bit of each word counts, and the change of the value is the one foretold. */
static void test_single_bits(void **state) {
    (void)state;
    enum { COUNT = 67 };
    fill_words(3);
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++) {
        const struct hf_checksum_info *info = hf_checksum_at(id);
        const uint64_t good = hf_checksum_of(id, words, COUNT);
        for (int i = 0; i < COUNT * 32; i++) {
            const uint32_t old = words[i / 32];
            words[i / 32] ^= 1u << i % 32;
            assert_int_not_equal(hf_checksum_of(id, words, COUNT), good);
            if (info->change)
                assert_int_not_equal(
                    info->change(info->weight((uint64_t)(COUNT - 1 - i / 32)), old, words[i / 32]),
                    0);
            words[i / 32] = old;
        }
    }
}

/* Several changes at once are missed by the value just if they join to 0. */
static void test_changes(void **state) {
    (void)state;
    enum { COUNT = 24 };
    int missed[HF_CHECKSUM_COUNT] = {0};
    struct hf_rng rng = {9, 9, 0};
    fill_words(4);
    for (int trial = 0; trial < 20000; trial++) {
        const int bit = (int)(hf_rng_next(&rng) % 3) + 29, flips = 2 << hf_rng_next(&rng) % 3;
        for (int id = 0; id < HF_CHECKSUM_COUNT; id++) {
            const struct hf_checksum_info *info = hf_checksum_at(id);
            uint32_t changed[COUNT];
            uint64_t change = 0;
            if (!info->change)
                continue;
            memcpy(changed, words, sizeof changed);
            for (int f = 0; f < flips; f++) {
                const int at = (trial + f * (1 + trial % 3)) % COUNT;
                changed[at] = words[at] ^ 1u << bit;
                change = info->join(change, info->change(info->weight((uint64_t)(COUNT - 1 - at)),
                                                         words[at], changed[at]));
            }
            const bool same =
                hf_checksum_of(id, changed, COUNT) == hf_checksum_of(id, words, COUNT);
            assert_int_equal(same, change == 0);
            missed[id] += same;
        }
    }
    assert_true(missed[HF_CHECKSUM_XOR] > 0 && missed[HF_CHECKSUM_TWOS] > 0);
    assert_true(missed[HF_CHECKSUM_FLETCHER] < missed[HF_CHECKSUM_TWOS]); /* + - - + */
    assert_int_equal(missed[HF_CHECKSUM_CRC32], 0);
}

/* Those whose order matters tell an exchange of two words; the others do not. */
static void test_order(void **state) {
    (void)state;
    fill_words(5);
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++) {
        const uint64_t good = hf_checksum_of(id, words, 100);
        const uint32_t first = words[10];
        words[10] = words[43];
        words[43] = first;
        assert_int_equal(hf_checksum_of(id, words, 100) == good,
                         (hf_checksum_at(id)->traits & HF_CHECKSUM_FREE) != 0);
        words[43] = words[10];
        words[10] = first;
    }
}

static void test_names(void **state) {
    (void)state;
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++)
        assert_int_equal(hf_checksum_find(hf_checksum_at(id)->name), id);
    assert_int_equal(hf_checksum_find("md5"), -1);
    assert_null(hf_checksum_at(-1));
    assert_null(hf_checksum_at(HF_CHECKSUM_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),     cmocka_unit_test(test_known),
        cmocka_unit_test(test_zlib),        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_single_bits), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_order),       cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
