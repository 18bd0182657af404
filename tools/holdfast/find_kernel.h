/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FIND_KERNEL_H
#define FIND_KERNEL_H

#include <holdfast/dev.h>
#include <stdbool.h>

/* The kernel of that name, of all ops. */
bool find_kernel(const char *name, hf_dev_kernel *kernel);

#endif
