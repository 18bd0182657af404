/* SPDX-License-Identifier: Apache-2.0 */
#include "rows/source.h"

#include <stdio.h>
#include <string.h>

hf_status hf_source_read(const hf_source *source, int64_t first, int64_t count, void *dst,
                         char *message, size_t message_bytes) {
    const int status = (int)source->read(source->user, first, count, dst, message, message_bytes);
    message[message_bytes - 1] = '\0'; /* whatever the source wrote there */
    if (status >= HF_OK && status <= HF_E_BUSY)
        return (hf_status)status;
    const size_t used = strlen(message);
    (void)snprintf(message + used, message_bytes - used,
                   "%sthe source returned %d, which is no hf_status", used > 0 ? "; " : "", status);
    return HF_E_IO;
}

int64_t hf_rows_dropped_before(const struct hf_rows *rows, int64_t raw) {
    int64_t low = 0, high = rows->dropped_count;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (rows->dropped[mid] < raw)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Number, dropped ones counted, of row i of those that take part. */
int64_t hf_rows_number(const struct hf_rows *rows, int64_t i) {
    int64_t low = 0, high = rows->dropped_count;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (rows->dropped[mid] - mid <= i)
            low = mid + 1;
        else
            high = mid;
    }
    return i + low;
}
