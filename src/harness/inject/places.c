/* SPDX-License-Identifier: Apache-2.0
 * The places of each op by number and by name: registers, the call, arrays. */
#include "harness/inject/fault.h"
#include <string.h>

enum type { F32, F64, I32, I64 };

static const struct register_row {
    const char *name, *text;
    int op;
    enum type type;
    bool undo;
} registers[HF_REGISTER_COUNT] = {
#define REGISTER(NAME, name, op, type, undo, text)                                                 \
    [HF_REGISTER_##NAME] = {#name, text, HF_OP_##op, type, undo != 0},
#include "core/registers.def"
#undef REGISTER
};

/* Sums are also updated while rows are assigned. */
static bool has_register(int op, int i) {
    return registers[i].op == op || (i == HF_REGISTER_TERM && op == HF_OP_ASSIGN);
}

static struct hf_place register_place(int i) {
    const struct register_row *r = &registers[i];
    return (struct hf_place){.kind = HF_PLACE_REGISTER,
                             .place = i,
                             .name = r->name,
                             .text = r->text,
                             .type = r->type == F32   ? HF_F32
                                     : r->type == F64 ? HF_F64
                                                      : HF_DTYPE_NONE,
                             .bytes = r->type == F32 || r->type == I32 ? 4 : 8,
                             .undo = r->undo};
}

bool hf_place_at(int op, int i, struct hf_place *place) {
    for (int r = 0; r < HF_REGISTER_COUNT; r++) {
        if (!has_register(op, r))
            continue;
        if (i-- == 0) {
            *place = register_place(r);
            return true;
        }
    }
    if (i == 0) {
        *place = (struct hf_place){
            .kind = HF_PLACE_CALL, .name = "call", .text = "the call of the kernel", .undo = true};
        return true;
    }
    i--;
    const struct hf_op_places *p = hf_op_places_at(op);
    if (i >= HF_PLACE_ARRAYS || !p->name[i])
        return false;
    *place = (struct hf_place){.kind = HF_PLACE_ARRAY,
                               .place = i,
                               .name = p->name[i],
                               .text = "array of the call",
                               .undo = true};
    return true;
}

bool hf_place_find(int op, const char *name, struct hf_place *place) {
    for (int i = 0; hf_place_at(op, i, place); i++)
        if (strcmp(place->name, name) == 0)
            return true;
    return false;
}

bool hf_place_takes(const struct hf_place *place, enum hf_fault_act act) {
    const bool value = act != HF_ACT_SKIP && act != HF_ACT_DUPLICATE && act != HF_ACT_STALE;
    if (place->kind == HF_PLACE_CALL)
        return act == HF_ACT_SKIP || act == HF_ACT_DUPLICATE;
    if (place->kind == HF_PLACE_ARRAY)
        return value || act == HF_ACT_STALE || act == HF_ACT_SKIP;
    if (act == HF_ACT_NAN)
        return place->type != HF_DTYPE_NONE;
    return value || (place->undo && act != HF_ACT_STALE);
}
