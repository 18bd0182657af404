/* SPDX-License-Identifier: Apache-2.0
 * What the protection did: for reports and summaries. */
#ifndef TOOL_GUARD_REPORT_H
#define TOOL_GUARD_REPORT_H

#include "tool.h"
#include <holdfast/guard.h>
#include <jansson.h>

/* An object: the scheme in force, its counters, the checks that were made and those that were not.
 */
json_t *guard_json(const char *scheme, uint32_t checks, const hf_guard_counts *faults);

/* The line of a summary. */
void guard_summary(const char *scheme, const hf_guard_counts *faults, FILE *out);

#endif
