/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_io.h"

/* With columns, missing values, headers and scalings asked for, which the file may not have. */
static void fuzz_prepared(uint8_t choice) {
    static const char *const lists[] = {NULL, "2-", "1,b", "\"2\",-1"};
    const hf_open_opts opts = {.header = (hf_header)(choice % 3),
                               .columns = lists[choice / 3 % 4],
                               .skip_columns = choice & 64 ? "1" : NULL,
                               .missing = choice & 128 ? "-9999,?,\"a\"\"\"" : NULL,
                               .scale = (hf_scale)(choice / 16 % 4)};
    hf_dataset *d = fuzz_open(&opts);
    const hf_array *a = hf_dataset_array(d);
    require(d == NULL || (a != NULL && a->rows > 0 && a->cols > 0), "sizes");
    for (int64_t j = 0; d != NULL && j < a->cols; j++)
        require(hf_dataset_column(d, j, NULL) > 0, "a column without a number");
    hf_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)fuzz_file(data, size, "fuzz.csv");
    for (int choice = 0; choice < 256; choice += 7)
        fuzz_prepared((uint8_t)(choice + (size > 0 ? data[0] : 0)));
    return 0;
}
