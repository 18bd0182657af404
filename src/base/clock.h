/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_CLOCK_H
#define HF_CLOCK_H

/* Seconds on a clock that never jumps. */
double hf_now_s(void);

#endif
