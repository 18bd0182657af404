/* SPDX-License-Identifier: Apache-2.0 */
#include "guard_report.h"

/* The names of the checks whose bits are those of `checks`. */
static json_t *names_of(uint32_t checks) {
    json_t *names = json_array();
    for (int i = 1; hf_guard_check_name(i); i++)
        if (checks >> i & 1)
            json_array_append_new(names, json_string(hf_guard_check_name(i)));
    return names;
}

json_t *guard_json(const char *scheme, uint32_t checks, const hf_guard_counts *faults) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "scheme", scheme, "checked",
                     (json_int_t)faults->checked, "suspected", (json_int_t)faults->suspected,
                     "confirmed", (json_int_t)faults->confirmed, "repaired",
                     (json_int_t)faults->repaired, "rolled_back", (json_int_t)faults->rolled_back,
                     "beyond", (json_int_t)faults->beyond, "checks", names_of(checks), "not_made",
                     names_of(~checks));
}

void guard_summary(const char *scheme, const hf_guard_counts *faults, FILE *out) {
    fprintf(out, "  guard     %s", scheme);
    if (faults->checked > 0)
        fprintf(out, "; %s values checked", tool_count_text(faults->checked));
    if (faults->suspected > 0)
        fprintf(out, ", %s suspected", tool_count_text(faults->suspected));
    if (faults->confirmed > 0)
        fprintf(out, ", %s wrong", tool_count_text(faults->confirmed));
    if (faults->repaired > 0)
        fprintf(out, ", %s repaired", tool_count_text(faults->repaired));
    if (faults->rolled_back > 0)
        fprintf(out, ", %s iterations made again", tool_count_text(faults->rolled_back));
    fputc('\n', out);
}
