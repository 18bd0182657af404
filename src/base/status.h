/* SPDX-License-Identifier: Apache-2.0
 * How an internal call reports failure: a status, and words in a hf_error that the context owns. */
#ifndef HF_STATUS_H
#define HF_STATUS_H

#include "base/compiler.h"
#include <holdfast/base.h>

typedef struct hf_error {
    char text[1024];
} hf_error;

/* Forward a failure to the caller. */
#define HF_TRY(expr)                                                                               \
    do {                                                                                           \
        const hf_status try_status_ = (expr);                                                      \
        if (try_status_ != HF_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

/* Write the message (cut to fit) and return `status`. err may be NULL. */
hf_status hf_fail(hf_error *err, hf_status status, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
