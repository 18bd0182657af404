/* SPDX-License-Identifier: Apache-2.0
 * Status codes, element types and the version. Every other header includes this one. */
#ifndef HF_BASE_H
#define HF_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Marks what the shared library exports. */
#if defined(_WIN32)
#define HF_API
#else
#define HF_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returned by every call that can fail. On failure the outputs are untouched or NULL (but see
 * hf_kmeans_predict()), and hf_last_error(ctx) says in words what was wrong, where, and what to do.
 */
typedef enum hf_status {
    HF_OK = 0,
    HF_E_ARG = 1,   /* an argument is out of its range, or two arguments contradict each other */
    HF_E_DATA = 2,  /* the data are unusable: NaN, negative weights, malformed or truncated file */
    HF_E_IO = 3,    /* the operating system refused to open, read or write */
    HF_E_NOMEM = 4, /* out of memory, or more would be needed than the context may use */
    HF_E_UNSUPPORTED = 5, /* not available in this build or on this machine */
    HF_E_DEVICE = 6,      /* the device reported an error */
    HF_E_CORRUPT = 7, /* wrong arithmetic or a damaged file was noticed and could not be repaired */
    HF_E_CANCELLED = 8, /* a progress callback asked to stop */
    HF_E_INTERNAL = 9,  /* a bug of holdfast: please report it */
    HF_E_BUSY = 10      /* the context is at work for another call */
} hf_status;

/* Element types. */
typedef enum hf_dtype {
    HF_DTYPE_NONE = 0,
    HF_F32 = 1,  /* IEEE binary32 */
    HF_F64 = 2,  /* IEEE binary64 */
    HF_F16 = 3,  /* IEEE binary16 */
    HF_BF16 = 4, /* the upper half of a binary32 */
    HF_U8 = 5,   /* unsigned byte */
    HF_I32 = 6,  /* two's complement, labels and integer weights */
    HF_I8 = 7    /* two's complement, products of matrices alone */
} hf_dtype;

/* A short English phrase for a status ("out of memory"); never NULL. */
HF_API const char *hf_status_text(hf_status status);

/* "f32", "f64", "f16", "bf16", "u8", "i32", "i8"; "none" for anything else. */
HF_API const char *hf_dtype_name(hf_dtype dtype);

/* Bytes of one element; 0 for HF_DTYPE_NONE. */
HF_API size_t hf_dtype_bytes(hf_dtype dtype);

/* "MAJOR.MINOR.PATCH" of the library that is loaded. */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#endif
#endif
