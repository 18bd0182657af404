/* SPDX-License-Identifier: Apache-2.0 */
#include "find_kernel.h"
#include <string.h>

bool find_kernel(const char *name, hf_dev_kernel *kernel) {
    hf_dev_op op;
    for (int i = 0; hf_dev_op_at(i, &op); i++)
        for (int j = 0; hf_dev_kernel_at(op.name, j, kernel); j++)
            if (strcmp(kernel->name, name) == 0)
                return true;
    return false;
}
