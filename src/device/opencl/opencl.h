/* SPDX-License-Identifier: Apache-2.0
 * The stream of an OpenCL context: what kernel->run() gets as `void *stream`.
 *
 * OpenCL 1.2 has memory objects, not pointers. The rest of the library has pointers and adds to
 * them, so each memory object gets a range of addresses of its own that nobody can read or write
 * (cl_memory.c). What is given to a kernel is the object and the distance from its beginning. */
#ifndef HF_OPENCL_H
#define HF_OPENCL_H

#include "device/device.h"
#include "device/opencl/cl_load.h"
#include <holdfast/array.h>
#include <pthread.h>

struct hf_cl_built; /* of cl_program.c */

/* A memory object and its addresses. */
struct hf_cl_block {
    char *at; /* of no memory */
    size_t bytes;
    hf_cl_mem mem;
    bool counts; /* it is memory of the device */
};

struct hf_opencl {
    const struct hf_cl_api *api;
    const struct hf_cl_info *info;
    hf_cl_context context;
    hf_cl_queue queue;
    pthread_mutex_t lock;      /* of the blocks: rows are copied from a thread of their own */
    struct hf_cl_block *block; /* [blocks] in order of addresses */
    int blocks, room;
    uint64_t held, most;       /* bytes of its memory, now and at most */
    hf_cl_mem nothing;         /* stands for NULL */
    struct hf_cl_built *built; /* programs, the latest first */
    const char *matrix;        /* sources of matrix.cl with a unit that works here, or NULL */
    bool unit;                 /* it is NVIDIA's */
    bool team;                 /* and works for 128 work-items at once: Hopper's */
    bool below;                /* start_below() */
    double mark[2];
    char error[1024]; /* what the last failure said */
};

/* Ours to theirs: HF_OK, HF_E_NOMEM or HF_E_DEVICE; the words go to cl->error. what: "copy", the
 * kernel's name, ... (cl_error.c) */
hf_status hf_opencl_check(struct hf_opencl *cl, hf_cl_int error, const char *what);

/* Is the device a CPU? There a work-item works on vectors and has much cache for itself. */
static inline bool hf_opencl_is_cpu(const struct hf_opencl *cl) {
    return (cl->info->type & HF_CL_DEVICE_TYPE_CPU) != 0;
}

/* What kernels ask of device i of all. */
struct hf_device_props hf_opencl_props(int i);

/* ---- cl_memory.c */
void *hf_opencl_alloc(struct hf_opencl *cl, size_t bytes);
/* Addresses for memory of the host, which the device uses where it lies; NULL when that fails. */
void *hf_opencl_alias(struct hf_opencl *cl, void *host, size_t bytes);
void hf_opencl_release(struct hf_opencl *cl, void *p); /* waits if the device may use it */
void hf_opencl_release_all(struct hf_opencl *cl);
/* The memory object that p points into, NULL for other addresses; how far from its beginning. */
hf_cl_mem hf_opencl_mem(const struct hf_opencl *cl, const void *p, size_t *offset);
hf_status hf_opencl_fill(struct hf_opencl *cl, void *dst, int byte, size_t bytes);
hf_status hf_opencl_copy(struct hf_opencl *cl, void *dst, const void *src, size_t bytes);
hf_status hf_opencl_copy_rows(struct hf_opencl *cl, const struct hf_row_copy *copy);

/* ---- cl_program.c, cl_launch.c */

/* A launch. Sources are the *.cl files of the tree, by their name without ".cl". */
struct hf_cl_job {
    const char *source;  /* "update"; "a+b": one behind the other; of static storage */
    const char *options; /* "-DX=1 -DC=2"; NULL: none */
    const char *kernel;
    size_t global, group; /* work-items, and of a group: 0 lets the driver choose */
};

/* Start a kernel. types says what follows, an argument a letter:
 *   p  a pointer, NULL or of the device: the kernel takes GLOBAL(name)
 *   i  int64_t: long      n  int32_t: int      d  double      f  double: float
 *   l  size_t: so many bytes of local memory */
hf_status hf_opencl_run(struct hf_opencl *cl, const struct hf_cl_job *job, const char *types, ...);

/* The kernel, built if need be. HF_E_DEVICE: it cannot be; cl->error says why. */
hf_status hf_opencl_kernel(struct hf_opencl *cl, const struct hf_cl_job *job, hf_cl_kernel *kernel);
void hf_opencl_forget(struct hf_opencl *cl); /* all that was built */
/* Do processes compile anew what is kept for this device, as others died while they loaded it? */
bool hf_opencl_loads_nothing(const struct hf_cl_info *info, char *note_path, size_t bytes);

/* ---- cl_child.c: the first argument of the program that compiles for us; then come the number of
 * the device, source and options as in struct hf_cl_job. */
#define HF_CL_COMPILE_VERB "--compile-opencl"
/* Have a child compile a program, which it leaves in the cache; nothing happens where there is no
 * such program. */
void hf_cl_compile_in_child(const struct hf_opencl *cl, const char *source, const char *options);

/* ---- cl_unit.c */
#define HF_CL_UNIT_PTX "decide+unit_ptx" /* sources of the matrix unit of NVIDIA GPUs, */
#define HF_CL_UNIT_DPAS "decide+unit_work+unit_dpas" /* of Intel GPUs, */
#define HF_CL_UNIT_NONE "decide+unit_work+unit_none" /* and of what stands in for one; */
/* for Intel's built-in function alone */
#define HF_CL_UNIT_DPAS_ALONE "decide+unit_work+unit_dpas_alone+unit_dpas"
/* Are kernels for matrix units wanted on this device, as far as it is known without a try? */
bool hf_cl_unit_kernels(const struct hf_cl_info *info);
/* Does this source, with unit_trial.cl behind it, give the right products here? team: of 4 warps */
bool hf_cl_unit_works(struct hf_opencl *cl, const char *source, bool team);
void hf_cl_unit_choose(struct hf_opencl *cl); /* sets cl->matrix, cl->unit and cl->team */

/* ---- cl_stage.c: arguments of a call that lie in host memory, seen by the device; and such that
 * lie on the device, seen by the host. */
#define HF_CL_STAGE_ITEMS 32

struct hf_cl_stage {
    struct hf_opencl *cl;
    hf_status status; /* the first failure; the calls below then return NULL */
    int count;
    struct hf_cl_item {
        void *host, *device;
        hf_cl_mem mapped; /* what host was mapped from, or NULL */
        size_t bytes;
        bool alias; /* device is an alias of host */
        bool back;  /* is copied to the host at the end */
    } item[HF_CL_STAGE_ITEMS];
};

void hf_cl_stage_begin(struct hf_cl_stage *stage, void *stream);
/* A device view of `bytes` bytes at p: read only, written only, or both. NULL for NULL. */
const void *hf_cl_in(struct hf_cl_stage *stage, const void *p, size_t bytes);
void *hf_cl_out(struct hf_cl_stage *stage, void *p, size_t bytes);
void *hf_cl_inout(struct hf_cl_stage *stage, void *p, size_t bytes);
/* A device view of a matrix; a staged copy may have no gaps between rows. */
hf_array hf_cl_array(struct hf_cl_stage *stage, const hf_array *a);
/* A view for the host of memory of the device; other memory is its own view. Waits. */
void *hf_cl_host(struct hf_cl_stage *stage, const void *p, size_t bytes, bool write);
/* Bring back what was written and free the copies. Waits if anything was staged. Returns `status`,
 * or what failed. */
hf_status hf_cl_stage_end(struct hf_cl_stage *stage, hf_status status);

#endif
