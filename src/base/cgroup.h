/* SPDX-License-Identifier: Apache-2.0
 * Limits that a control group (container, service) puts on this process; versions 1 and 2. */
#ifndef HF_CGROUP_H
#define HF_CGROUP_H

#include <stdint.h>

/* Bytes that may still be taken before the memory limit; UINT64_MAX: no limit. File cache that the
 * kernel can drop counts as free. */
uint64_t hf_cgroup_memory_left(void);

/* Cores' worth of time the group may use, rounded up, as it was at most a second ago; UINT64_MAX:
 * no limit. */
uint64_t hf_cgroup_cores(void);

/* The unsigned number after `key` and blanks at the start of a line of dir/name; key "" asks for
 * the start of the file. UINT64_MAX when it is not there or not a number ("max", "-1"). */
uint64_t hf_text_number(const char *dir, const char *name, const char *key);

#endif
