/* SPDX-License-Identifier: Apache-2.0
 * Planning on the op `range`, whose rows serve every call, so that only the rules decide. */
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "core/plan.h"
#include "core/tune.h"
#include "device/host/isa.h"
#include "ops/assign/assign.h"
#include "ops/moments/moments.h"
#include "ops/range/range.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define TUNE_FILE "test_plan.tune"
#define ROWS 200
#define COLS 9
#define MOST_KERNELS 32

static hf_context *ctx;
static float x[ROWS * COLS];
static double least[COLS], most[COLS];
static uint8_t row_bad[ROWS];
static bool whole;
static int64_t bad_rows;
static struct hf_range_args args;
static const struct hf_kernel *reference, *other; /* other is NULL where only the reference runs */

static int set_up(void **state) {
    (void)state;
    const struct hf_kernel *row = NULL;
    for (int i = 0; (row = hf_kernel_at(HF_OP_RANGE, i)) != NULL; i++) {
        if (row->traits & HF_TRAIT_REFERENCE)
            reference = row;
        else if (row->device == HF_DEV_HOST && hf_kernel_runs_here(row, NULL, 0))
            other = row;
    }
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)i;
    args = (struct hf_range_args){
        hf_array_view(x, HF_F32, ROWS, COLS), 1, least, most, &whole, row_bad, &bad_rows, NULL};
    return setenv("HF_TUNE_FILE", TUNE_FILE, 1);
}

/* Every test begins with a fresh context, no tuning file and nothing forced. */
static int fresh(void **state) {
    (void)state;
    (void)unlink(TUNE_FILE);
    (void)unsetenv("HF_KERNEL_RANGE");
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    return hf_context_create(&ctx, &opts) == HF_OK ? 0 : -1;
}

static int done(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(TUNE_FILE);
    return 0;
}

static const struct hf_kernel *plan(const char **source) {
    const struct hf_kernel *kernel = NULL;
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &args, &kernel, source), HF_OK);
    return kernel;
}

static void registry(void **state) {
    (void)state;
    for (int op = 0; op < HF_OP_COUNT; op++) {
        const struct hf_op *o = hf_op_at(op);
        int references = 0, rows = 0;
        assert_int_equal(hf_op_find(o->name), op);
        const struct hf_kernel *row = NULL;
        for (; (row = hf_kernel_at(op, rows)) != NULL; rows++) {
            const size_t len = strlen(o->name);
            assert_true(strncmp(row->name, o->name, len) == 0 && row->name[len] == '_');
            assert_true(row->dtypes != 0 && row->run != NULL && hf_device_of(row->device) != NULL);
            assert_true(row->device != HF_DEV_HOST || row->isa < HF_ISA_COUNT);
            references += (row->traits & HF_TRAIT_REFERENCE) != 0;
            for (int i = 0; i < rows; i++)
                assert_string_not_equal(row->name, hf_kernel_at(op, i)->name);
        }
        assert_int_equal(references, 1);
        assert_null(hf_kernel_at(op, rows + 1));
        assert_null(hf_kernel_at(op, -1));
    }
    assert_null(hf_op_at(-1));
    assert_null(hf_op_at(HF_OP_COUNT));
    assert_null(hf_kernel_at(HF_OP_COUNT, 0));
    assert_int_equal(hf_op_find("no-such-op"), -1);
}

static void model(void **state) {
    (void)state;
    const char *source = NULL;
    const struct hf_kernel *kernel = plan(&source);
    assert_true((kernel != reference) == (other != NULL));
    assert_string_equal(source, other != NULL ? "model" : "reference");
    assert_ptr_equal(plan(NULL), kernel);
}

static void forced(void **state) {
    (void)state;
    const char *source = NULL;
    const struct hf_kernel *kernel = NULL;
    assert_int_equal(setenv("HF_KERNEL_RANGE", reference->name, 1), 0);
    assert_ptr_equal(plan(&source), reference);
    assert_string_equal(source, "forced");
    assert_int_equal(setenv("HF_KERNEL_RANGE", "range_abacus", 1), 0);
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &args, &kernel, NULL), HF_E_ARG);
    assert_null(kernel);
    assert_non_null(strstr(hf_last_error(ctx), "HF_KERNEL_RANGE=range_abacus"));
    assert_int_equal(setenv("HF_KERNEL_RANGE", "", 1), 0);
    (void)plan(&source);
    assert_string_not_equal(source, "forced");
}

/* A row that exists but cannot run here is refused, with the reason. */
static void forced_elsewhere(void **state) {
    (void)state;
    const struct hf_kernel *row = NULL, *kernel = NULL;
    int i = 0;
    while ((row = hf_kernel_at(HF_OP_RANGE, i)) != NULL &&
           (row->device != HF_DEV_HOST || hf_kernel_runs_here(row, NULL, 0)))
        i++;
    if (row == NULL) {
        print_message("skipped: every row for CPUs of this build runs here\n");
        skip();
    }
    assert_int_equal(setenv("HF_KERNEL_RANGE", row->name, 1), 0);
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &args, &kernel, NULL), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), hf_isa_name((int)row->isa)));
}

static struct hf_tune_entry entry(const struct hf_kernel *kernel, int64_t n, int64_t d, double ns) {
    const struct hf_key key = {{HF_F32}, {n, d}, 0};
    struct hf_tune_entry e = {.key = hf_tune_bucket(hf_op_at(HF_OP_RANGE), &key), .ns = ns};
    (void)snprintf(e.kernel, sizeof e.kernel, "%s", kernel->name);
    hf_tune_fingerprint(e.fingerprint);
    return e;
}

static void save(struct hf_tune_entry *entries, int count) {
    const struct hf_tune tune = {.entry = entries, .count = count};
    assert_int_equal(hf_tune_save(TUNE_FILE, &tune, NULL), HF_OK);
}

static void tuned(void **state) {
    (void)state;
    const char *source = NULL;
    struct hf_tune_entry e = entry(reference, ROWS, COLS, 100.0);
    save(&e, 1);
    assert_ptr_equal(plan(&source), reference);
    assert_string_equal(source, "tuned");
    if (other == NULL)
        return;
    /* the environment comes first */
    assert_int_equal(setenv("HF_KERNEL_RANGE", other->name, 1), 0);
    assert_ptr_equal(plan(&source), other);
    assert_string_equal(source, "forced");
}

/* The closest entry counts, of those the fastest; far ones and those of other machines do not. */
static void closest_measurement(void **state) {
    (void)state;
    if (other == NULL) {
        print_message("skipped: only the reference runs here\n");
        skip();
    }
    struct hf_tune_entry e[] = {
        entry(other, 2 * ROWS, COLS, 1.0),
        entry(reference, ROWS, COLS, 100.0),
        entry(other, ROWS, COLS, 101.0),
    };
    save(e, 3);
    assert_ptr_equal(plan(NULL), reference);
    (void)done(NULL);
    assert_int_equal(fresh(NULL), 0);
    const char *source = NULL;
    struct hf_tune_entry far[] = {entry(reference, 8 * ROWS, COLS, 1.0),
                                  entry(reference, ROWS, COLS, 1.0)};
    (void)snprintf(far[1].fingerprint, sizeof far[1].fingerprint, "another-machine");
    save(far, 2);
    assert_ptr_equal(plan(&source), other);
    assert_string_equal(source, "model");
}

static void write_text(const char *text) {
    hf_file *file = NULL;
    assert_int_equal(hf_file_create(&file, TUNE_FILE, NULL), HF_OK);
    assert_int_equal(hf_file_write(file, text, strlen(text), NULL), HF_OK);
    assert_int_equal(hf_file_commit(file, NULL), HF_OK);
}

/* Lines of other ops, of other machines, or of no sense at all change nothing. */
static void strange_lines(void **state) {
    (void)state;
    static const char *const junk[] = {
        "range",
        "range f32 7 0 3 %s %s 1", /* of format 1, which had no names */
        "range x=f32 n=2^7,d=2^3 - %s %s",
        "range x=f32 n=2^-7,d=2^3 - %s %s 1",
        "range x=f32 n=128,d=2^3 - %s %s 1",
        "range x=f32 n=2^7,d=2^99 - %s %s 1",
        "range x=f32 n=2^7,,d=2^3 - %s %s 1",
        "range x=f32 n=2^7,d=2^3, - %s %s 1",
        "range x=f32 a=2^1,b=2^1,c=2^1,d=2^1,e=2^1 - %s %s 1",
        "range x=f32 n2^7 - %s %s 1",
        "range x=f99 n=2^7,d=2^3 - %s %s 1",
        "range f32 n=2^7,d=2^3 - %s %s 1",
        "range x=f32 n=2^7,d=2^3 a,,b %s %s 1",
        "range x=f32 n=2^7,d=2^3 - %s %s -1",
        "range x=f32 n=2^7,d=2^3 - %s %s nan",
        "range x=f32 n=2^7,d=2^3 - %s %s 1 1",
    };
    char here[HF_TUNE_NAME_BYTES], text[4000] = "# comment\n\n";
    hf_tune_fingerprint(here);
    assert_null(strchr(here, ' '));
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        const size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, junk[i], here, reference->name);
        strcat(text, "\n");
    }
    const size_t at = strlen(text);
    (void)snprintf(text + at, sizeof text - at,
                   "fold x=f32 n=2^7,d=2^3 - %s %s 1\nrange x=f32 n=2^7,k=2^3 - %s %s 1\n"
                   "range x=f32 n=2^7,d=2^3 odd - %s %s 1\n"
                   "range x=f32 n=2^7,d=2^3 - %s range_of_the_future 1",
                   here, reference->name, here, reference->name, here, reference->name, here);
    write_text(text);
    struct hf_tune tune;
    assert_int_equal(hf_tune_load(TUNE_FILE, &tune, NULL), HF_OK);
    assert_int_equal(tune.count, 3); /* which ops, names and kernels exist is not the file's
                                        business: such lines match no call */
    assert_int_equal(tune.odd, 3);
    hf_tune_clear(&tune);
    const char *source = NULL;
    (void)plan(&source);
    assert_string_not_equal(source, "tuned");
}

/* A file of another version was measured with other kernels, and one of format 1 says other things
 * with its numbers: neither is read. */
static void refused_files(void **state) {
    (void)state;
    static const char *const heads[] = {" tuning 2:", ".1 tuning 2:", ":", " tuning 3:"};
    static const char *const words[] = {NULL, "another version", "another format",
                                        "another format"};
    char here[HF_TUNE_NAME_BYTES], text[400];
    struct hf_tune tune;
    hf_tune_fingerprint(here);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof text,
                       "# holdfast %s%s some words\nrange x=f32 n=2^7,d=2^3 - %s %s 1\n",
                       hf_version(), heads[i], here, reference->name);
        write_text(text);
        assert_int_equal(hf_tune_load(TUNE_FILE, &tune, NULL), HF_OK);
        assert_int_equal(tune.count, i == 0 ? 1 : 0);
        assert_true((tune.refused == NULL) == (words[i] == NULL));
        if (words[i] != NULL)
            assert_non_null(strstr(tune.refused, words[i]));
        hf_tune_clear(&tune);
    }
}

static const struct hf_kernel *row_named(int op, const char *name) {
    const struct hf_kernel *row = NULL;
    for (int i = 0; (row = hf_kernel_at(op, i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            break;
    return row;
}

/* Estimated time of a row of assign on float32 data; -1: it does not run here. */
static double assign_estimate(const char *name, int64_t d, int64_t k) {
    const struct hf_kernel *row = row_named(HF_OP_ASSIGN, name);
    const struct hf_assign_args a = {.x = hf_array_view(x, HF_F32, 100000, d),
                                     .c = hf_array_view(x, HF_F32, k, d),
                                     .exact = true};
    const struct hf_call call = {.device = &ctx->props, .args = &a};
    return row == NULL || !hf_kernel_runs_here(row, NULL, 0) ? -1 : row->estimate(&call);
}

/* Many centroids in a plane are too close to each other for what matrix tiles know of a score. */
static void few_features(void **state) {
    (void)state;
    const char *const tiles[] = {"assign_half_32x32_amx", "assign_bf16_32x32_amx"};
    const char *vectors = "assign_f32_32x12_avx512";
    for (int i = 0; i < 2; i++) {
        if (assign_estimate(tiles[i], 2, 1024) < 0 || assign_estimate(vectors, 2, 1024) < 0) {
            print_message("%s or %s does not run here\n", tiles[i], vectors);
            continue;
        }
        assert_true(assign_estimate(tiles[i], 2, 1024) > 2 * assign_estimate(vectors, 2, 1024));
        assert_true(assign_estimate(tiles[i], 64, 256) < assign_estimate(vectors, 64, 256));
        assert_true(assign_estimate(tiles[i], 16, 64) < 2 * assign_estimate(vectors, 16, 64));
    }
}

/* What comes with the library can be read whole and names rows that exist. */
static void shipped(void **state) {
    (void)state;
    static const char *const files[] = {HF_TEST_DATA "/../../tuning/h200.tune",
                                        HF_TEST_DATA "/../../tuning/pocl-avx2.tune",
                                        HF_TEST_DATA "/../../tuning/pocl-avx512.tune"};
    const bool cuda = row_named(HF_OP_ASSIGN, "assign_f64_32x64_cuda") != NULL;
    if (!cuda)
        print_message("rows of CUDA are not looked for: built without it\n");
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct hf_tune tune;
        assert_int_equal(hf_tune_load(files[f], &tune, NULL), HF_OK);
        assert_true(tune.count > 0);
        for (int i = 0; i < tune.count; i++) {
            const bool opencl = strstr(tune.entry[i].kernel, "_opencl") != NULL;
            if ((cuda || opencl) &&
                row_named(hf_op_find(tune.entry[i].key.op), tune.entry[i].kernel) == NULL)
                fail_msg("%s: there is no row %s", files[f], tune.entry[i].kernel);
        }
        hf_tune_clear(&tune);
    }
}

/* On the CPU the machine is what tuning files of the CPU name. */
static void machine_of_context(void **state) {
    (void)state;
    char here[HF_TUNE_NAME_BYTES], machine[HF_TUNE_NAME_BYTES];
    hf_tune_fingerprint(here);
    hf_plan_machine(ctx, machine);
    assert_string_equal(machine, here);
    hf_context *gpu = NULL;
    const hf_context_opts opts = {.device = "cuda"};
    if (hf_context_create(&gpu, &opts) != HF_OK) {
        print_message("on the CPU only: %s\n", hf_last_error(NULL));
        return;
    }
    hf_plan_machine(gpu, machine);
    assert_true(strlen(machine) > 0 && strpbrk(machine, " ,") == NULL);
    assert_string_not_equal(machine, here);
    hf_context_destroy(gpu);
}

static void file_round_trip(void **state) {
    (void)state;
    struct hf_tune_entry e[] = {entry(reference, 1, 1, 12.0),
                                entry(reference, (int64_t)1 << 40, 1000, 3e12)};
    struct hf_tune tune;
    assert_int_equal(hf_tune_load("no/such/file", &tune, NULL), HF_OK);
    assert_int_equal(tune.count, 0);
    save(e, 2);
    assert_int_equal(hf_tune_load(TUNE_FILE, &tune, NULL), HF_OK);
    assert_int_equal(tune.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(&tune.entry[i].key, &e[i].key, sizeof e[i].key);
        assert_string_equal(tune.entry[i].kernel, e[i].kernel);
        assert_string_equal(tune.entry[i].fingerprint, e[i].fingerprint);
        assert_true(tune.entry[i].ns == e[i].ns);
    }
    assert_string_equal(tune.entry[1].key.dim[0].name, "n");
    assert_int_equal(tune.entry[1].key.dim[0].log2, 40);
    assert_int_equal(tune.entry[1].key.dim[1].log2, 9);
    hf_tune_clear(&tune);
    hf_error err = {""};
    assert_int_equal(hf_tune_load("/proc/self", &tune, &err), HF_E_IO);
    assert_int_equal(hf_tune_save("no/such/file", &tune, &err), HF_E_IO);
    assert_non_null(strstr(err.text, "no/such/file"));
}

/* All kernels of an op; how many there are. */
static int explain(int op, const void *of, struct hf_plan_candidate c[MOST_KERNELS]) {
    const struct hf_kernel *kernels[MOST_KERNELS];
    struct hf_kernel_set set = {hf_op_at(op), kernels, 0};
    while (hf_kernel_at(op, set.count) != NULL) {
        assert_true(set.count < MOST_KERNELS);
        kernels[set.count] = hf_kernel_at(op, set.count);
        set.count++;
    }
    hf_plan_explain(ctx, &set, of, c);
    return set.count;
}

static void explained(void **state) {
    (void)state;
    struct hf_plan_candidate c[MOST_KERNELS];
    const struct hf_kernel *kernel = plan(NULL);
    const int count = explain(HF_OP_RANGE, &args, c);
    int chosen = 0;
    assert_true(count >= 1);
    for (int i = 0; i < count; i++) {
        assert_ptr_equal(c[i].kernel, hf_kernel_at(HF_OP_RANGE, i));
        assert_int_equal(c[i].usable, c[i].kernel->device == HF_DEV_HOST &&
                                          hf_kernel_runs_here(c[i].kernel, NULL, 0));
        assert_int_equal(c[i].chosen, c[i].kernel == kernel);
        assert_true(strlen(c[i].why) > 0);
        chosen += c[i].chosen;
    }
    assert_int_equal(chosen, 1);
    assert_int_equal(setenv("HF_KERNEL_RANGE", "range_abacus", 1), 0);
    c[0].chosen = true;
    assert_int_equal(explain(HF_OP_RANGE, &args, c), count);
    assert_false(c[0].chosen);
}

static void open_with(uint64_t memory_bytes) {
    (void)done(NULL);
    const hf_context_opts opts = {.device = "cpu", .threads = 2, .memory_bytes = memory_bytes};
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
}

/* What a kernel needs is asked of the device it would run on, not of another one of the machine. */
static void devices_differ(void **state) {
    (void)state;
    static const struct {
        uint32_t needs;
        int has;
        bool runs;
    } gpus[] = {{80, 80, true},  {80, 90, true},   {80, 75, false}, {90, 90, true},
                {90, 80, false}, {90, 100, false}, {80, 120, true}};
    char why[160];
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const struct hf_kernel kernel = {.device = HF_DEV_CUDA, .isa = gpus[i].needs};
        const struct hf_device_props device = {.workers = 1, .sm = gpus[i].has};
        why[0] = '\0';
        assert_int_equal(hf_kernel_runs_on(&kernel, &device, why, sizeof why), gpus[i].runs);
        assert_true(gpus[i].runs == (why[0] == '\0'));
    }
    (void)hf_kernel_runs_on(&(struct hf_kernel){.device = HF_DEV_CUDA, .isa = 90},
                            &(struct hf_device_props){.sm = 120}, why, sizeof why);
    assert_string_equal(why, "needs compute capability 9.0, the GPU has 12.0");
}

/* Only the shape of these rows is looked at. */
static const struct hf_kernel *plan_wide_moments(const char **source) {
    const struct hf_moments_args wide = {.x = hf_array_view(x, HF_F32, 2, 1000000)};
    struct hf_plan_candidate c[MOST_KERNELS];
    const struct hf_kernel *kernel = NULL;
    assert_int_equal(hf_plan(ctx, HF_OP_MOMENTS, &wide, &kernel, source), HF_OK);
    const int count = explain(HF_OP_MOMENTS, &wide, c);
    for (int i = 0; i < count; i++) {
        assert_int_equal(c[i].chosen, c[i].kernel == kernel);
        if (c[i].usable && c[i].kernel->workspace && !c[i].chosen && kernel->workspace == NULL)
            assert_non_null(strstr(c[i].why, "memory limit"));
    }
    return kernel;
}

/* A row whose workspace is above the limit gives way to one that fits; it can still be forced. */
static void memory_limit(void **state) {
    (void)state;
    const char *source = NULL;
    const struct hf_kernel *best = plan_wide_moments(NULL);
    if (best->workspace == NULL) {
        print_message("skipped: only the reference runs here\n");
        skip();
    }
    open_with((uint64_t)1 << 20);
    const struct hf_kernel *lean = plan_wide_moments(&source);
    assert_null(lean->workspace);
    assert_string_equal(source, "reference");
    struct hf_tune_entry e = entry(best, 2, 1000000, 1.0);
    (void)snprintf(e.key.op, sizeof e.key.op, "moments");
    save(&e, 1);
    open_with((uint64_t)1 << 20);
    assert_ptr_equal(plan_wide_moments(NULL), lean);
    open_with((uint64_t)1 << 30);
    assert_ptr_equal(plan_wide_moments(&source), best);
    assert_string_equal(source, "tuned");
    open_with((uint64_t)1 << 20);
    assert_int_equal(setenv("HF_KERNEL_MOMENTS", best->name, 1), 0);
    assert_ptr_equal(plan_wide_moments(NULL), best);
    (void)unsetenv("HF_KERNEL_MOMENTS");
}

/* Rows that may disagree do not give way: what comes out must not depend on the limit. */
static void memory_decides_no_label(void **state) {
    (void)state;
    struct hf_assign_args a = {.x = hf_array_view(x, HF_F32, 4096, 64),
                               .c = hf_array_view(x, HF_F32, 4000, 64),
                               .metric = HF_EUCLIDEAN};
    const struct hf_kernel *row[2][2] = {{NULL, NULL}, {NULL, NULL}}; /* [exact][narrow] */
    uint64_t bytes[2] = {0, 0};
    for (int narrow = 0; narrow < 2; narrow++) {
        open_with((uint64_t)(narrow ? 1 : 1024) << 20);
        for (int exact = 0; exact < 2; exact++) {
            a.exact = exact;
            assert_int_equal(hf_op_at(HF_OP_ASSIGN)->unanimous(&a), exact);
            assert_int_equal(hf_plan(ctx, HF_OP_ASSIGN, &a, &row[exact][narrow], NULL), HF_OK);
            bytes[exact] = hf_plan_workspace(ctx, HF_OP_ASSIGN, &a);
        }
    }
    assert_ptr_equal(row[0][0], row[0][1]);
    assert_true(bytes[0] == hf_kernel_workspace(ctx, row[0][0], &a) && bytes[1] <= bytes[0]);
    assert_null(hf_op_at(HF_OP_RANGE)->unanimous);
}

/* Where no row fits, the choice is that without a limit, and the run says what it lacks. */
static void nothing_fits(void **state) {
    (void)state;
    const struct hf_kernel *kernel = NULL, *small = NULL;
    struct hf_range_args wide = args;
    wide.x.cols = 1000000;
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &wide, &kernel, NULL), HF_OK);
    open_with((uint64_t)1 << 20);
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &wide, &small, NULL), HF_OK);
    assert_ptr_equal(small, kernel);
    assert_int_equal(hf_range(ctx, &wide), HF_E_NOMEM);
    assert_non_null(strstr(hf_last_error(ctx), "may use 1048576"));
}

/* hf_run() goes through the plan and says afterwards which row ran. */
static void run_follows_the_plan(void **state) {
    (void)state;
    assert_int_equal(setenv("HF_KERNEL_RANGE", reference->name, 1), 0);
    for (int j = 0; j < COLS; j++) {
        least[j] = (double)INFINITY;
        most[j] = -(double)INFINITY;
    }
    whole = true;
    assert_int_equal(hf_range(ctx, &args), HF_OK);
    assert_ptr_equal(ctx->last_kernel[HF_OP_RANGE], reference);
    assert_true(least[2] == 2.0 && most[2] == (ROWS - 1) * COLS + 2);
    assert_int_equal(setenv("HF_KERNEL_RANGE", "range_abacus", 1), 0);
    assert_int_equal(hf_range(ctx, &args), HF_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(registry, fresh, done),
        cmocka_unit_test_setup_teardown(model, fresh, done),
        cmocka_unit_test_setup_teardown(few_features, fresh, done),
        cmocka_unit_test_setup_teardown(forced, fresh, done),
        cmocka_unit_test_setup_teardown(forced_elsewhere, fresh, done),
        cmocka_unit_test_setup_teardown(tuned, fresh, done),
        cmocka_unit_test_setup_teardown(closest_measurement, fresh, done),
        cmocka_unit_test_setup_teardown(strange_lines, fresh, done),
        cmocka_unit_test_setup_teardown(machine_of_context, fresh, done),
        cmocka_unit_test_setup_teardown(refused_files, fresh, done),
        cmocka_unit_test_setup_teardown(shipped, fresh, done),
        cmocka_unit_test_setup_teardown(file_round_trip, fresh, done),
        cmocka_unit_test_setup_teardown(explained, fresh, done),
        cmocka_unit_test(devices_differ),
        cmocka_unit_test_setup_teardown(memory_limit, fresh, done),
        cmocka_unit_test_setup_teardown(memory_decides_no_label, fresh, done),
        cmocka_unit_test_setup_teardown(nothing_fits, fresh, done),
        cmocka_unit_test_setup_teardown(run_follows_the_plan, fresh, done),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
