/* SPDX-License-Identifier: Apache-2.0
 * Planted faults: what a line of text describes, and the one that is planted. */
#ifndef HF_FAULT_H
#define HF_FAULT_H

#ifndef HF_INJECT
#define HF_INJECT 1 /* what core/inject_hooks.h then declares is in the development library */
#endif
#include "core/inject_hooks.h"
#include "core/op.h"
#include <stdbool.h>
#include <stdint.h>

#define HF_PLACE_ARRAYS 16   /* of an op, at most */
#define HF_FAULT_TEXT 300    /* bytes of a line, its end included */
#define HF_COUNTED_CALLS 256 /* of an op, whose visits are counted apart */

enum hf_fault_act {
#define ACT(NAME, name, text) HF_ACT_##NAME,
#include "harness/inject/acts.def"
#undef ACT
    HF_ACT_COUNT
};

/* Where a fault is: a register, the call as a whole, or an array of the op. */
enum hf_place_kind { HF_PLACE_REGISTER, HF_PLACE_CALL, HF_PLACE_ARRAY };

struct hf_fault_site {
    int op;          /* enum hf_op_id */
    char kernel[64]; /* name, or its beginning and a *; "": any */
    enum hf_place_kind kind;
    int place;                 /* enum hf_register, or number of the array */
    bool after;                /* arrays: strikes behind the call, not before it */
    int64_t iteration;         /* which call of the op, from 1; 0: any */
    int64_t row, column, step; /* -1: any */
    int64_t worker, lane;      /* -1: any */
    int64_t word;              /* of an array */
    int64_t hit;               /* which visit of those that match, from 1 */
    uint64_t mask, value;
    enum hf_fault_act act;
    bool always; /* from that visit on, not once */
};

/* From a line of text; false, and why, where it is none. */
bool hf_fault_parse(const char *line, struct hf_fault_site *site, char *why, size_t why_bytes);
/* The line that describes it. */
void hf_fault_text(const struct hf_fault_site *site, char text[HF_FAULT_TEXT]);

/* A place of an op. */
struct hf_place {
    enum hf_place_kind kind;
    int place;
    const char *name, *text;
    hf_dtype type; /* of a register: F32, F64; HF_DTYPE_NONE: an integer */
    int bytes;     /* of a value; 0: that of the array's elements */
    bool undo;     /* a value from before is known */
};

/* Place number i of an op; false past the last. By its name; false: there is none. */
bool hf_place_at(int op, int i, struct hf_place *place);
bool hf_place_find(int op, const char *name, struct hf_place *place);
/* Does this act make sense there? */
bool hf_place_takes(const struct hf_place *place, enum hf_fault_act act);

/* An array of a call. */
struct hf_place_array {
    void *data; /* NULL: this call has none */
    size_t bytes;
    int word;    /* bytes of an element */
    bool floats; /* of a floating-point type */
};

/* The arrays of a call, in the order of their names. (arrays.c) */
struct hf_op_places {
    const char *name[HF_PLACE_ARRAYS];
    void (*arrays)(const void *args, struct hf_place_array *out);
};
const struct hf_op_places *hf_op_places_at(int op);
/* Does an array live only as long as a call of its op? */
bool hf_place_is_workspace(int op, int place);
/* The rows of a call, if the op has rows. */
const hf_array *hf_place_rows(int op, const void *args);

enum hf_inject_mode { HF_INJECT_OFF, HF_INJECT_PLANTED, HF_INJECT_COUNTING, HF_INJECT_STREAM };

/* Faults that are chosen while calls run. */
struct hf_fault_stream {
    /* hf_inject_choose() for this call, again and again; false: no more */
    bool (*plant)(int op, int64_t call);
    void (*enter)(int op, uint32_t registers); /* a call whose registers are struck begins, */
    void (*leave)(void);                       /* or ends */
    void (*done)(void);                        /* what was chosen has struck, if it has */
    int (*ahead)(void); /* iterations of op lloyd on a device until the next fault is due */
};

/* Visits of a place in each of the first calls of its op. */
struct hf_visits {
    int64_t calls[HF_OP_COUNT];
    int64_t of_register[HF_REGISTER_COUNT][HF_COUNTED_CALLS];
    int64_t of_array[HF_OP_COUNT][HF_PLACE_ARRAYS]; /* elements, the most of a call, */
    int word[HF_OP_COUNT][HF_PLACE_ARRAYS];         /* of so many bytes */
    bool floats[HF_OP_COUNT][HF_PLACE_ARRAYS];
};

/* The state of an injector: one fault at a time, planted and removed while no call is at work. */
struct hf_injector {
    _Atomic int mode; /* enum hf_inject_mode */
    struct hf_fault_site site;
    struct hf_place place;
    _Atomic int64_t calls[HF_OP_COUNT]; /* since it was planted */
    _Atomic int64_t visits;             /* that match, */
    _Atomic int64_t struck;             /* those of them that it struck, */
    _Atomic int64_t altered;            /* and those whose value it altered */
    _Atomic int64_t row;                /* of the last of them; -1: not known */
    const hf_array *rows;               /* of the call at work, or NULL */
    int64_t call;                       /* its number */
    struct hf_visits *counted;
    struct hf_fault_stream stream;
};

/* The injector of the calling thread; that of the process where the thread has none of its own, as
 * the workers of a pool. Registers are struck by that of the process alone. */
struct hf_injector *hf_injector(void);
/* From now on calls of this thread are struck by `injector`, cleared by the caller; NULL: by that
 * of the process. */
void hf_inject_own(struct hf_injector *injector);

void hf_inject_plant(const struct hf_fault_site *site);
void hf_inject_count(struct hf_visits *visits);              /* counts instead; visits is cleared */
void hf_inject_stream(const struct hf_fault_stream *stream); /* many, one after the other */
void hf_inject_remove(void);

/* The fault to be struck from now on; its visits are counted from 0. */
void hf_inject_choose(const struct hf_fault_site *site);

/* Is the next of the visits that match struck? */
bool hf_inject_hits(void);
/* The value after the fault; *undone 0 where `before` is needed and not known. */
void hf_inject_alter(void *value, const void *before, int bytes, bool floats);

#endif
