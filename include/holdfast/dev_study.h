/* SPDX-License-Identifier: Apache-2.0
 * What the study of portability needs beside fits: its rows, a plain port to OpenCL, rates of a
 * device. Found in libholdfast_dev only. Unstable: may change in any release. */
#ifndef HF_DEV_STUDY_H
#define HF_DEV_STUDY_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the SYCL study, float32: "uniform" (1,000,000 x 500) or "census" (2,458,285 x 68, small
 * whole numbers like those of the US census of 1990). rows 0: all of them; columns 0: those of the
 * set. HF_E_ARG: no such set. */
HF_API hf_status hf_dev_study_rows(const char *set, int64_t rows, int64_t columns, hf_array *x);
/* Give their memory back. */
HF_API void hf_dev_study_free(hf_array *x);

/* Is the device of the context a CPU? */
HF_API int hf_dev_study_is_cpu(const hf_context *ctx);

/* float32 multiply-add operations a second of an OpenCL device, two for each; 0: no such device. */
HF_API double hf_dev_study_roof(hf_context *ctx);

/* The rows in the memory of a device, as a fit takes them; a CPU uses them where they lie.
 * HF_E_NOMEM, HF_E_DEVICE. */
HF_API hf_status hf_dev_study_place(hf_context *ctx, const hf_array *x, hf_array *there);
/* Give that memory back; ctx may be NULL. */
HF_API void hf_dev_study_remove(hf_context *ctx, hf_array *there);

/* Median seconds of op assign on such rows. kernel [64] out. */
HF_API hf_status hf_dev_study_assign(hf_context *ctx, const hf_array *x, const hf_array *centroids,
                                     int rounds, double *seconds, char *kernel);

/* k-means as a plain port to OpenCL has it: a work-item some points, every distance in float, sums
 * in local memory and then by compare-and-swap. Neither exact nor repeatable. */
typedef struct hf_dev_port_form {
    int width;      /* of vectors along a row: 1, 2, 4, 8 or 16 */
    int package;    /* points of a work-item */
    int group;      /* work-items of a group */
    int by_columns; /* rows are stored column by column; width is 1 then */
} hf_dev_port_form;

/* Rows on a device, and its kernels. */
typedef struct hf_dev_port hf_dev_port;

/* The rows x (F32, packed) on the OpenCL device of the context. HF_E_ARG, HF_E_DEVICE, HF_E_NOMEM;
 * hf_last_error(ctx) says why. */
HF_API hf_status hf_dev_port_open(hf_context *ctx, const hf_array *x, const hf_dev_port_form *form,
                                  hf_dev_port **port);
/* So many iterations from these centroids (F32, packed): median seconds of both halves; labels [n]
 * are those of the last, NULL: not wanted. */
HF_API hf_status hf_dev_port_run(hf_dev_port *port, const hf_array *centroids, int iterations,
                                 double *assign_s, double *update_s, int32_t *labels);
/* Give its memory back; port may be NULL. */
HF_API void hf_dev_port_close(hf_dev_port *port);

#ifdef __cplusplus
}
#endif
#endif
