/* SPDX-License-Identifier: Apache-2.0
 * Who works on a block of op march. Its watcher gives a sign of life every now and then; a spare
 * block of threads that has seen none for `silence` claims the block. So whoever gave one less than
 * half of that ago knows that the block is its own, and asks memory otherwise. */
#ifndef HF_MARCH_LIFE_CUH
#define HF_MARCH_LIFE_CUH

#include "ops/march/march_board.cuh"

#define BEATS 8  /* signs of life in `silence`, at least */
#define DOUBTS 8 /* of them after a long pause */
#define WHO_BITS 10

static __device__ __forceinline__ hf_u64 claim_by(const struct march_job &job, unsigned who) {
    return (job.first + 1) << WHO_BITS | who;
}

/* Nobody has claimed it in this launch: then it is with the block of threads of its number. */
static __device__ __forceinline__ bool is_unclaimed(const struct march_job &job, hf_u64 claim) {
    return claim >> WHO_BITS != job.first + 1;
}

static __device__ bool is_mine(const struct march_job &job, int block) {
    const hf_u64 claim = *(volatile hf_u64 *)&job.claim[block];
    return is_unclaimed(job, claim) ? (unsigned)block == blockIdx.x
                                    : claim == claim_by(job, blockIdx.x);
}

/* May this thread tell others something? */
static __device__ __forceinline__ bool may_tell(const struct march_job &job,
                                                const struct board *board) {
    return !GUARDED || clock64() - board->lease < job.silence / 2 || is_mine(job, board->block);
}

/* ---- experiments */

/* The workers of this block of threads end without a word, or sleep, and its watcher with them. */
static __device__ __noinline__ void fall_silent(const struct march_job &job) {
    struct board *board = board_here();
    const long long until = clock64() + job.pause;
    meet(job.map.threads);
    if (threadIdx.x == 0) {
        board->dead = job.pause == 0;
        board->sleep = job.pause > 0 ? until : 0;
        __threadfence_block();
        board->over = board->dead;
        board->abort = board->dead;
    }
    if (job.pause == 0)
        asm volatile("exit;");
    while (clock64() < until)
        __nanosleep(100);
    meet(job.map.threads);
}

static __device__ __forceinline__ void lose_worker(const struct march_job &job,
                                                   enum hf_march_moment moment, int64_t at) {
    if (GUARDED && job.loss.blocks != NULL && job.loss.moment == moment && job.loss.at == at &&
        !is_spare(job) && job.loss.blocks[blockIdx.x] != 0)
        fall_silent(job);
}

/* ---- signs of life */

/* The sign of a block that is complete: no other is odd. */
static __device__ __forceinline__ hf_u64 done_sign(const struct march_job &job) {
    return 2 * job.first + 1;
}

/* By one thread of the watcher, often. */
static __device__ void give_sign(const struct march_job &job, struct board *board) {
    while (board->sleep != 0 && clock64() < board->sleep)
        __nanosleep(100);
    const long long now = clock64(), age = now - board->lease;
    if (age < job.silence / BEATS || board->dead || job.spares == 0)
        return;
    board->doubt = age >= job.silence / 2 ? DOUBTS : board->doubt;
    if (board->doubt > 0) {
        board->doubt--;
        if (!is_mine(job, board->block)) {
            board->deposed = 1;
            board->abort = 1;
            return;
        }
    }
    *(volatile hf_u64 *)&job.beat[board->block] = 2 * (hf_u64)now;
    board->lease = now;
}

/* The watcher's last word. */
static __device__ void give_last_sign(const struct march_job &job, const struct board *board) {
    if (GUARDED && threadIdx.x % 32 == 0 && job.spares > 0 && !board->dead && !board->deposed)
        *(volatile hf_u64 *)&job.beat[board->block] = done_sign(job);
}

/* What the watcher of the block knew last, and its round, for a block of threads that goes on. */
static __device__ void read_rounds(const struct march_job &job, struct board *board) {
    const int blocks = (int)job.map.blocks;
    int round = 1, made = 0;
    double target = job.target;
    for (int side = 0; side < 2; side++) {
        const struct tag *at = job.round + 2 * side * blocks + board->block;
        const struct tag seen = load_tag(at), epochs = load_tag(at + blocks);
        if (seen.epoch != epochs.epoch || seen.epoch <= job.first + (hf_u64)round ||
            seen.epoch > job.first + (hf_u64)job.most)
            continue;
        round = (int)(seen.epoch - job.first);
        target = seen.value;
        made = (int)epochs.value;
    }
    board->round = round;
    board->target = target;
    board->first = (made / job.every + 1) * job.every;
    board->horizon = job.tested ? board->first + job.lead : NEVER - 1;
}

static __device__ void read_verdicts(const struct march_job &job, struct board *board) {
    const int blocks = (int)job.map.blocks, first = board->first;
    int newest = 0;
    for (int side = 0; side < 2; side++) {
        struct tag seen[4];
        bool whole = true;
        for (int i = 0; i < 4; i++) {
            seen[i] = load_tag(job.verdict + (4 * side + i) * blocks + board->block);
            whole = whole && seen[i].epoch == seen[0].epoch;
        }
        const hf_u64 since = seen[0].epoch - job.first;
        if (!whole || seen[0].epoch < job.first + (hf_u64)first || since > (hf_u64)job.most ||
            (int)since <= newest)
            continue;
        newest = (int)since;
        const int word = (int)seen[3].value;
        board->before = board->estimate = seen[0].value;
        board->least = seen[1].value;
        board->start = seen[2].value;
        board->since = word / 4;
        board->hopeless = word / 2 % 2;
        board->last = word % 2 ? newest + job.lead : NEVER;
        board->first = newest + job.every;
        board->horizon = newest + job.every + job.lead;
    }
}

/* What a lane of a spare block's watcher has seen of the blocks that it looks at. */
struct vigil {
    hf_u64 seen[AT_ONCE];
    long long since[AT_ONCE];
    hf_u64 claim[AT_ONCE]; /* of this launch; 0: none */
};

/* Claims a block that has given no sign of life for too long; spare ones begin with different ones.
 * Returns it, blocks: none, -1: all are complete. By a warp. */
static __device__ int look_for_lost(const struct march_job &job, struct vigil *vigil) {
    hf_u64 *const seen = vigil->seen;
    long long *const since = vigil->since;
    const int blocks = (int)job.map.blocks, lane = (int)threadIdx.x % 32;
    const hf_u64 done = done_sign(job);
    hf_u64 beat[AT_ONCE];
    bool all_done = true;
    int lost = -1;
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        beat[u] = lane + 32 * u < blocks ? *(volatile hf_u64 *)&job.beat[lane + 32 * u] : done;
    const long long now = clock64();
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        since[u] = beat[u] != seen[u] || beat[u] == done ? now : since[u];
        seen[u] = beat[u];
        all_done = all_done && beat[u] == done;
        lost = now - since[u] > job.silence ? u : lost;
    }
    if (__all_sync(0xffffffffu, all_done))
        return -1;
    const unsigned silent = __ballot_sync(0xffffffffu, lost >= 0);
    if (silent == 0)
        return blocks;
    const unsigned turn = (blockIdx.x - (unsigned)blocks) % (unsigned)__popc(silent);
    const int chosen = (int)__fns(silent, 0, (int)turn + 1);
    bool got = false;
    if (lane == chosen) {
        const int block = lane + 32 * lost;
        const hf_u64 before = *(volatile hf_u64 *)&job.claim[block];
        const hf_u64 known = is_unclaimed(job, before) ? 0 : before;
        got = known == vigil->claim[lost] && *(volatile hf_u64 *)&job.beat[block] == seen[lost] &&
              atomicCAS(&job.claim[block], before, claim_by(job, blockIdx.x)) == before;
        vigil->claim[lost] = known;
        since[lost] = now; /* whoever has it begins now */
        lost = block;
    }
    got = __shfl_sync(0xffffffffu, got, chosen) != 0;
    return got ? __shfl_sync(0xffffffffu, lost, chosen) : blocks;
}

/* The watcher of a spare block, until a block is lost (board->block) or all are complete (it is
 * none of the map's). */
static __device__ void stand_by(const struct march_job &job, struct board *board) {
    const int blocks = (int)job.map.blocks, lane = (int)threadIdx.x % 32;
    struct vigil vigil;
    for (int u = 0; u < AT_ONCE; u++) {
        const int block = lane + 32 * u;
        vigil.seen[u] = block < blocks ? *(volatile hf_u64 *)&job.beat[block] : 0;
        vigil.since[u] = board->begin + 2 * job.silence; /* not all begin at once */
        vigil.claim[u] = 0;
    }
    int found = blocks;
    while (found == blocks &&
           __shfl_sync(0xffffffffu, clock64() - board->begin <= job.limit, 0) != 0)
        found = look_for_lost(job, &vigil);
    if (lane != 0)
        return;
    board->block = found;
    board->lease = clock64();
    if (found >= 0 && found < blocks) {
        *(volatile hf_u64 *)&job.beat[found] = 2 * (hf_u64)board->lease;
        read_rounds(job, board);
        read_verdicts(job, board);
    }
}

#endif
