/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_CLOCK_H
#define HF_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds on a clock that never jumps. */
double hf_now_s(void);

/* Seconds that the calling thread has worked: what other programs take is not in it. */
double hf_thread_s(void);

#ifdef __cplusplus
}
#endif

#endif
