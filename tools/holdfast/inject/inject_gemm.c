/* SPDX-License-Identifier: Apache-2.0
 * holdfast inject gemm: the tables of Fernandez et al. (2022) for this machine. */
#include "inject/gemm_campaign.h"
#include "inject/inject.h"
#include "interrupt.h"
#include "tool.h"

#include <errno.h>
#include <string.h>

#define DEVICE_EVERY 13        /* all bits of all shapes take minutes */
#define GUARDED "rows+columns" /* the name of hf_gemm_guarded() among the schemes */

enum key {
    KEY_FORM = 256,
    KEY_SEED,
    KEY_SAMPLE,
    KEY_TRIALS,
    KEY_BUDGET,
    KEY_SCHEME,
    KEY_QUIET,
    KEY_EVERY,
    KEY_TYPE
};

struct inject {
    struct gemm_campaign campaign;
    hf_context_opts context;
    const char *folder, *scheme;
    int form; /* 2: both */
    bool quiet;
};

static const char *const forms[] = {"seq", "avx", "both", NULL};
static const char *const type_names[] = {"f32", "f16", "bf16", NULL};
static const hf_dtype types[] = {HF_F32, HF_F16, HF_BF16};

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0,
     "cpu (default) or cuda: there a product is computed for each single bit", 0},
    {"output", 'o', "FOLDER", 0,
     "Write coverage.tsv, faults.tsv, timing.tsv, report.md and report.json there", 0},
    {"form", KEY_FORM, "FORM", 0, "seq, avx or both (default): sequential, or eight lanes", 0},
    {"scheme", KEY_SCHEME, "NAME", 0,
     "One scheme only, such as xor_i, twos+fletcher, t+o:fletcher (t+o: by crc32c) or rows+columns",
     0},
    {"sample", KEY_SAMPLE, "N", 0,
     "Single bits per shape for which the product is computed, to verify the count (default: 50)",
     0},
    {"trials", KEY_TRIALS, "N", 0,
     "Faults of each class while a product is computed (default: 200; 0: none)", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0,
     "Time for measuring a scheme on a shape (default: 0.2; 0: no timing)", 0},
    {"every", KEY_EVERY, "N", 0,
     "Of the schemes of op gemm (t+o, l+o) try only each N-th bit, each in a product of its own "
     "(default: 1, all, on a GPU 13; 0: none)",
     0},
    {"type", KEY_TYPE, "NAME", 0,
     "Of the matrices of these schemes: f32 (default), f16 or bf16; the others sign f32", 0},
    {"seed", KEY_SEED, "S", 0, "Of matrices and faults (default: 1)", 0},
    {"threads", 't', "T", 0, "Worker threads for counting; default: one for each usable core", 0},
    {"quiet", KEY_QUIET, NULL, 0, "No progress on standard error", 0},
    {0},
};

/* The schemes of op gemm. */
static const struct ours_result ours[OURS] = {
    {.name = "t+o:crc32c", .checksum = "crc32c"},
    {.name = "l+o:crc32c", .checksum = "crc32c", .release = 1},
    {.name = "t+o:fletcher", .checksum = "fletcher"},
    {.name = "l+o:fletcher", .checksum = "fletcher", .release = 1}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct inject *in = state->input;
    switch (key) {
    case 'd':
        in->context.device = arg;
        break;
    case 'o':
        in->folder = tool_path(state, "--output", arg);
        break;
    case KEY_FORM:
        in->form = tool_choice(state, "--form", arg, forms);
        break;
    case KEY_SCHEME:
        in->scheme = strcmp(arg, "t+o") == 0   ? ours[0].name
                     : strcmp(arg, "l+o") == 0 ? ours[1].name
                                               : arg;
        break;
    case KEY_SAMPLE:
        in->campaign.sample = tool_int(state, "--sample", arg, 0, 1000000);
        break;
    case KEY_TRIALS:
        in->campaign.trials = tool_int(state, "--trials", arg, 0, 1000000);
        break;
    case KEY_BUDGET:
        in->campaign.budget_s = tool_real(state, "--budget", arg, 0, 3600);
        break;
    case KEY_EVERY:
        in->campaign.every = tool_int(state, "--every", arg, 0, 1000000);
        break;
    case KEY_TYPE:
        in->campaign.type = types[tool_choice(state, "--type", arg, type_names)];
        break;
    case KEY_SEED:
        in->campaign.seed = tool_u64(state, "--seed", arg);
        break;
    case 't':
        in->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_QUIET:
        in->quiet = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: too many arguments", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Flip each bit of the operands of products with execution signatures, inject other faults "
    "while "
    "they are computed, measure what the signatures cost, and recommend one for each safety "
    "integrity level.\v"
    "Schemes are those of Fernandez et al. (Appl. Sci. 12:3779, 2022): a checksum at the external, "
    "intermediate or internal loop (xor_e, xor_m, xor_i, ...) and pairs (internal+intermediate).",
    NULL,
    NULL,
    NULL};

static bool is_cpu(const hf_context *ctx) { return strncmp(hf_context_device(ctx), "cpu", 3) == 0; }

/* Faults in the middle of a product need a host. */
static hf_status count_scheme(hf_context *ctx, struct gemm_campaign *c, struct scheme_result *r) {
    hf_status status = HF_OK;
    for (int s = 0; status == HF_OK && s < COVERAGE_SHAPES && !interrupt_seen(); s++)
        status = hf_dev_es_count_bits(ctx, &r->es, coverage_shapes[s].dims, c->seed, c->sample,
                                      &r->count[s]);
    for (int f = 0; status == HF_OK && c->trials > 0 && f < c->classes && is_cpu(ctx); f++)
        status = hf_dev_es_inject(ctx, &r->es, coverage_shapes[0].dims, f, c->seed, c->trials,
                                  &r->faults[f]);
    for (int s = 0; status == HF_OK && c->budget_s > 0 && s < TIME_SHAPES && !interrupt_seen(); s++)
        status = hf_dev_es_time(ctx, &r->es, time_shapes[s].dims, c->budget_s, &r->timing[s]);
    return status;
}

static bool is_ours(const char *scheme) {
    for (int i = 0; i < OURS; i++)
        if (strcmp(scheme, ours[i].name) == 0)
            return true;
    return strcmp(scheme, GUARDED) == 0;
}

/* On the device that the paper's schemes ran on. */
static int run_ours(hf_context *ctx, struct inject *in) {
    struct gemm_campaign *c = &in->campaign;
    for (int i = 0; c->every > 0 && i < OURS; i++) {
        struct ours_result *r = &c->ours[i];
        *r = ours[i];
        if (in->scheme && strcmp(in->scheme, r->name) != 0)
            continue;
        if (!in->quiet)
            fprintf(stderr, "\r%-28s %d of %d ", r->name, i + 1, OURS);
        const hf_dev_signed how = {r->checksum, r->release, c->type};
        hf_status status = HF_OK;
        for (int s = 0; status == HF_OK && s < COVERAGE_SHAPES && !interrupt_seen(); s++)
            status = hf_dev_signed_count_bits(ctx, &how, coverage_shapes[s].dims, c->every,
                                              &r->count[s]);
        const bool timed = c->budget_s > 0 && is_cpu(ctx); /* operands lie in host memory */
        for (int s = 0; status == HF_OK && timed && s < TIME_SHAPES && !interrupt_seen(); s++)
            status = hf_dev_signed_time(ctx, &how, time_shapes[s].dims, c->budget_s, &r->timing[s]);
        if (status == HF_E_UNSUPPORTED)
            return EXIT_DONE;
        if (status != HF_OK)
            return tool_fail(ctx, status, STAGE_COMPUTE);
        if (interrupt_seen())
            return EXIT_DONE;
        r->done = true;
    }
    return EXIT_DONE;
}

/* The count disagreed with a computed product: nothing that follows from it may be believed. */
static int check_sample(const struct scheme_result *r, int form) {
    for (int s = 0; s < COVERAGE_SHAPES; s++)
        if (r->count[s].differed > 0) {
            tool_error("%s (%s) on %s: %lld of %lld computed products do not have the signature "
                       "that was counted with: this is a bug, please report it",
                       r->name, form_names[form], coverage_shapes[s].name,
                       (long long)r->count[s].differed, (long long)r->count[s].computed);
            return EXIT_FAILED;
        }
    return EXIT_DONE;
}

static int run_form(hf_context *ctx, struct inject *in, int form) {
    struct gemm_campaign *c = &in->campaign;
    for (int i = 0; i < c->schemes; i++) {
        struct scheme_result *r = &c->result[form][i];
        if (in->scheme && strcmp(in->scheme, r->name) != 0)
            continue;
        if (!in->quiet)
            fprintf(stderr, "\r%s %-24s %d of %d ", form_names[form], r->name, i + 1, c->schemes);
        errno = 0;
        const hf_status status = count_scheme(ctx, c, r);
        if (status == HF_E_UNSUPPORTED) {
            tool_error("form %s: %s; left out", form_names[form], hf_last_error(ctx));
            return EXIT_DONE;
        }
        if (status != HF_OK)
            return tool_fail(ctx, status, STAGE_COMPUTE);
        if (interrupt_seen())
            return EXIT_DONE;
        r->done = true;
        const int code = check_sample(r, form);
        if (code != EXIT_DONE)
            return code;
    }
    if (!in->quiet)
        fputs("\r                                                \r", stderr);
    return EXIT_DONE;
}

static int run(hf_context *ctx, struct inject *in) {
    struct gemm_campaign *c = &in->campaign;
    const double start = tool_now();
    bool known = in->scheme == NULL || is_ours(in->scheme);
    const char *name, *text;
    while (c->classes < CLASSES && hf_dev_es_fault_at(c->classes, &name, &text))
        c->classes++;
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < SCHEMES; i++) {
            struct scheme_result *r = &c->result[form][i];
            if (!hf_dev_es_at(i, &r->es, r->name))
                break;
            r->es.avx = form;
            c->schemes = i + 1;
            known = known || strcmp(in->scheme, r->name) == 0;
        }
    if (!known) {
        tool_error(
            "--scheme %s: there is no such scheme; xor_i, twos+fletcher and t+o:crc32c are some",
            in->scheme);
        return EXIT_USAGE;
    }
    int code = EXIT_DONE;
    interrupt_watch(); /* what is whole by then is printed and written */
    for (int form = 0; code == EXIT_DONE && form < FORMS; form++)
        if (in->form == 2 || in->form == form)
            code = run_form(ctx, in, form);
    /* One thread: a product of these sizes is not worth two, and its time is that of a thread. */
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    hf_context *alone = NULL;
    if (code == EXIT_DONE && hf_context_create(&alone, &one) == HF_OK)
        code = run_ours(is_cpu(ctx) ? alone : ctx, in);
    if (code == EXIT_DONE && alone && (!in->scheme || strcmp(in->scheme, GUARDED) == 0))
        code = run_guarded(is_cpu(ctx) ? alone : ctx, c);
    hf_context_destroy(alone);
    c->seconds = tool_now() - start;
    for (int form = 0; code == EXIT_DONE && form < FORMS; form++) {
        print_coverage(stdout, c, form);
        print_levels(stdout, c, form);
    }
    if (code == EXIT_DONE)
        print_ours(stdout, c);
    if (code == EXIT_DONE)
        print_guarded(stdout, c);
    if (code == EXIT_DONE && in->folder)
        code = write_campaign(c, in->folder);
    return code == EXIT_DONE && interrupt_seen() ? EXIT_INTERRUPTED : code;
}

int inject_gemm(int argc, char **argv) {
    static struct inject in = {.form = 2};
    in.campaign.type = HF_F32;
    in.campaign.seed = 1;
    in.campaign.sample = 50;
    in.campaign.trials = 200;
    in.campaign.budget_s = 0.2;
    in.campaign.every = -1;
    in.context.device = "cpu";
    hf_context *ctx = NULL;
    tool_parse(&argp, argc, argv, &in);
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &in.context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    in.campaign.device = hf_context_device(ctx);
    if (!is_cpu(ctx) && strncmp(in.campaign.device, "cuda", 4) != 0) {
        tool_error("inject gemm: --device %s: must be cpu or cuda", in.context.device);
        hf_context_destroy(ctx);
        return EXIT_USAGE;
    }
    in.campaign.on_gpu = !is_cpu(ctx);
    if (in.campaign.every < 0)
        in.campaign.every = is_cpu(ctx) ? 1 : DEVICE_EVERY;
    int code = in.folder ? make_campaign_folder(ctx, in.folder) : EXIT_DONE;
    if (code == EXIT_DONE)
        code = run(ctx, &in);
    hf_context_destroy(ctx);
    return code;
}
