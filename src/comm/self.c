/* SPDX-License-Identifier: Apache-2.0
 * The communicator of a process that is alone: a reduction of one term is that term. */
#include "comm/comm.h"

#include <string.h>

static int self_rank(const hf_comm *comm) {
    (void)comm;
    return 0;
}

static int self_size(const hf_comm *comm) {
    (void)comm;
    return 1;
}

static hf_status self_allreduce(const hf_comm *comm, void *stream, void *data, int64_t count,
                                enum hf_comm_reduction reduction) {
    (void)comm;
    (void)stream;
    (void)data;
    (void)count;
    (void)reduction;
    return HF_OK;
}

/* Nobody is before this one. */
static hf_status self_scan(const hf_comm *comm, void *stream, int64_t *data, int64_t count) {
    const size_t bytes = (size_t)count * sizeof *data;
    if (comm->device->owns(stream, data))
        return comm->device->fill(stream, data, 0, bytes);
    memset(data, 0, bytes);
    return HF_OK;
}

static hf_status self_gather(const hf_comm *comm, void *stream, const void *data, size_t bytes,
                             void *all, int root) {
    return root == 0 ? comm->device->copy(stream, all, data, bytes) : HF_E_ARG;
}

static hf_status self_bcast(const hf_comm *comm, void *stream, void *data, size_t bytes, int root) {
    (void)comm;
    (void)stream;
    (void)data;
    (void)bytes;
    return root == 0 ? HF_OK : HF_E_ARG;
}

static hf_status self_agree(const hf_comm *comm, int32_t *decision) {
    (void)comm;
    (void)decision;
    return HF_OK;
}

static void self_close(hf_comm *comm) { comm->device = NULL; }

void hf_comm_self(hf_comm *comm, const struct hf_device *device) {
    *comm = (hf_comm){.name = "self",
                      .device = device,
                      .rank = self_rank,
                      .size = self_size,
                      .allreduce = self_allreduce,
                      .scan = self_scan,
                      .gather = self_gather,
                      .bcast = self_bcast,
                      .agree = self_agree,
                      .close = self_close};
}
