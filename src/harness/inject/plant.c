/* SPDX-License-Identifier: Apache-2.0
 * Faults for the command and for tests: dev.h. */
#include "harness/inject/fault.h"
#include <holdfast/dev.h>

hf_status hf_dev_fault_plant(const char *line, char *why, size_t why_bytes) {
    struct hf_fault_site site;
    if (!hf_fault_parse(line, &site, why, why_bytes))
        return HF_E_ARG;
    hf_inject_plant(&site);
    return HF_OK;
}

void hf_dev_fault_remove(hf_dev_fault_proof *proof) {
    hf_inject_remove();
    if (proof)
        *proof = (hf_dev_fault_proof){hf_injector()->visits, hf_injector()->struck,
                                      hf_injector()->altered};
}

int hf_dev_place_at(int i, hf_dev_place *out) {
    static const char *const kind[] = {"register", "call", "array"};
    for (int op = 0; op < HF_OP_COUNT; op++) {
        struct hf_place place;
        if (!hf_op_places_at(op)->arrays)
            continue;
        for (int j = 0; hf_place_at(op, j, &place); j++) {
            if (i-- > 0)
                continue;
            *out = (hf_dev_place){.op = hf_op_at(op)->name,
                                  .name = place.name,
                                  .text = place.text,
                                  .kind = kind[place.kind],
                                  .bits = 8 * place.bytes};
            for (int act = 0; act < HF_ACT_COUNT; act++)
                out->acts |= hf_place_takes(&place, (enum hf_fault_act)act) << act;
            return 1;
        }
    }
    return 0;
}

int hf_dev_act_at(int i, const char **name, const char **text) {
    static const char *const acts[HF_ACT_COUNT][2] = {
#define ACT(NAME, name, text) {#name, text},
#include "harness/inject/acts.def"
#undef ACT
    };
    if (i < 0 || i >= HF_ACT_COUNT)
        return 0;
    *name = acts[i][0];
    *text = acts[i][1];
    return 1;
}
