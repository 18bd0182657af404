/* SPDX-License-Identifier: Apache-2.0
 * Every kernel on every case of its op: test_kernels [OP [KERNEL]], or HF_CHECK_OP,
 * HF_CHECK_KERNEL and HF_CHECK_SEED. A trailing * in KERNEL stands for anything. For tools that
 * make kernels slow: HF_CHECK_DEVICE=cuda, HF_CHECK_SHARE=2/16 (a part of the cases),
 * HF_CHECK_LARGEST= (most n k d of a case), HF_CHECK_ONCE=1 (one run a case), HF_CHECK_LEAVE=1
 * (workspaces are not filled first). */
#include <holdfast/dev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_event(void *user, const hf_dev_check_event *event) {
    static const char *const words[] = {"passed", "FAILED", "skipped"};
    (void)user;
    if (event->case_name)
        printf("  %s: %s: %s\n", event->kernel, event->case_name, event->text);
    else
        printf("%-8s %-10s %-36s %6" PRId64 " cases%s%s\n", words[event->verdict], event->op,
               event->kernel, event->cases, event->text[0] ? ": " : "", event->text);
    fflush(stdout);
}

static long long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 0) : 0;
}

int main(int argc, char **argv) {
    const char *seed = getenv("HF_CHECK_SEED");
    const char *share = getenv("HF_CHECK_SHARE");
    hf_dev_check_opts opts = {.op = argc > 1 ? argv[1] : getenv("HF_CHECK_OP"),
                              .kernel = argc > 2 ? argv[2] : getenv("HF_CHECK_KERNEL"),
                              .seed = seed ? strtoull(seed, NULL, 0) : 20240229,
                              .device = getenv("HF_CHECK_DEVICE"),
                              .largest = number("HF_CHECK_LARGEST"),
                              .once = number("HF_CHECK_ONCE") != 0,
                              .leave_workspace = number("HF_CHECK_LEAVE") != 0};
    if (share && (sscanf(share, "%d/%d", &opts.share, &opts.shares) != 2 || opts.share < 0 ||
                  opts.share >= opts.shares)) {
        fprintf(stderr, "test_kernels: HF_CHECK_SHARE=%s: must be like 0/4\n", share);
        return 1;
    }
    hf_dev_tally tally;
    const hf_status status = hf_dev_check(&opts, print_event, NULL, &tally);
    if (status != HF_OK) {
        fprintf(stderr, "test_kernels: %s (op %s, kernel %s)\n", hf_status_text(status),
                opts.op ? opts.op : "any", opts.kernel ? opts.kernel : "any");
        return 1;
    }
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped (seed %" PRIu64 ")\n",
           tally.passed, tally.failed, tally.skipped, opts.seed);
    return tally.failed ? 1 : 0;
}
