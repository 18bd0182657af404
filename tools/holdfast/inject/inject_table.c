/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_table.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "# holdfast inject: "
#define COLUMNS                                                                                    \
    "number\top\tplace\tmodel\tbit\toff\tguarded\tvisits\tstruck\taltered\tchecked\tsuspected\t"   \
    "confirmed\trepaired\trolled_back\tkind\tunit\tlane\tfault\n"
#define FIELDS 19

static int failed(const char *path, const char *what) {
    tool_error("%s: %s: %s", tool_name_text(path), what, strerror(errno));
    return tool_exit_code(HF_E_IO, errno, STAGE_WRITE);
}

static char *join(const char *dir, const char *name) {
    const size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

/* Fields of a line, cut apart in place. False: it is none. */
static bool read_row(struct inject_row *row) {
    char *field[FIELDS];
    char *at = row->text;
    for (int i = 0; i < FIELDS; i++) {
        field[i] = at;
        at += strcspn(at, i + 1 < FIELDS ? "\t" : "\n");
        if (*at == '\0')
            return false;
        *at++ = '\0';
    }
    row->number = strtoll(field[0], NULL, 10);
    row->op = field[1];
    row->place = field[2];
    row->model = field[3];
    row->bit = atoi(field[4]);
    row->off = hf_dev_outcome_find(field[5]);
    row->guarded = strcmp(field[6], "-") == 0 ? HF_DEV_OUTCOMES : hf_dev_outcome_find(field[6]);
    row->altered = strtoll(field[9], NULL, 10);
    row->suspected = strtoll(field[11], NULL, 10);
    row->confirmed = strtoll(field[12], NULL, 10);
    row->repaired = strtoll(field[13], NULL, 10);
    row->kind = atoi(field[15]);
    row->unit = atoi(field[16]);
    row->lane = atoi(field[17]);
    row->line = field[18];
    return row->number >= 0 && row->off >= 0 && row->guarded >= 0;
}

/* The lines of a file of this campaign. *end: bytes of what is whole. */
static int read_file(const struct inject_options *o, const char *path, inject_row_fn *each,
                     void *user, long *end) {
    struct inject_row row;
    FILE *file = fopen(path, "r");
    char head[1300];
    int code = EXIT_DONE;
    *end = 0;
    if (!file)
        return errno == ENOENT ? EXIT_DONE : failed(path, "cannot be read");
    snprintf(head, sizeof head, HEAD "%s\n", inject_options_text(o));
    while (code == EXIT_DONE && fgets(row.text, sizeof row.text, file)) {
        const bool whole = strchr(row.text, '\n') != NULL;
        if (!whole)
            break;
        if (*end == 0 && strcmp(row.text, head) != 0) {
            tool_error("%s is of another campaign: name another folder, or give the same options "
                       "(%.300s)",
                       tool_name_text(path), row.text);
            code = EXIT_INPUT;
        } else if (*end > 0 && row.text[0] != '#' && strcmp(row.text, COLUMNS) != 0) {
            if (read_row(&row)) {
                each(user, &row);
            } else {
                tool_error("%s is damaged at byte %ld: remove it, and begin again",
                           tool_name_text(path), *end);
                code = EXIT_CORRUPT;
            }
        }
        *end = ftell(file);
    }
    fclose(file);
    return code;
}

static void mark(void *user, const struct inject_row *row) {
    struct inject_table *table = user;
    if (row->number >= table->faults || inject_table_knows(table, row->number))
        return;
    table->known[row->number / 8] |= (unsigned char)(1 << row->number % 8);
    table->there++;
}

bool inject_table_knows(const struct inject_table *table, int64_t number) {
    return table->known[number / 8] >> number % 8 & 1;
}

static char *table_path(const struct inject_options *o) {
    char name[64] = "faults.tsv";
    if (o->campaign.shards > 1)
        snprintf(name, sizeof name, "faults-%lldof%lld.tsv", (long long)o->campaign.shard,
                 (long long)o->campaign.shards);
    return join(o->out_dir, name);
}

int inject_table_open(struct inject_table *table, const struct inject_options *o) {
    long end = 0;
    *table = (struct inject_table){.faults = o->campaign.faults};
    if (mkdir(o->out_dir, 0777) != 0 && errno != EEXIST)
        return failed(o->out_dir, "the folder cannot be made");
    table->path = table_path(o);
    table->known = calloc((size_t)table->faults / 8 + 1, 1);
    if (!table->path || !table->known)
        return failed(o->out_dir, "no memory for the campaign");
    const int code = read_file(o, table->path, mark, table, &end);
    if (code != EXIT_DONE)
        return code;
    if (end > 0 && !o->resume) {
        tool_error("%s is there already: go on with --resume, or name another folder",
                   tool_name_text(table->path));
        return EXIT_USAGE;
    }
    table->file = fopen(table->path, "a");
    if (!table->file || ftruncate(fileno(table->file), end) != 0)
        return failed(table->path, "cannot be written");
    if (end == 0)
        fprintf(table->file, HEAD "%s\n" COLUMNS, inject_options_text(o));
    return fflush(table->file) == 0 ? EXIT_DONE : failed(table->path, "cannot be written");
}

void inject_table_close(struct inject_table *table) {
    if (table->file)
        fclose(table->file);
    free(table->path);
    free(table->known);
    *table = (struct inject_table){0};
}

int inject_table_add(struct inject_table *table, const hf_dev_injection *one) {
    const hf_guard_counts *c = &one->counts;
    const char *guarded = hf_dev_outcome_name((int)one->guarded);
    fprintf(table->file,
            "%lld\t%s\t%s\t%s\t%d\t%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t"
            "%d\t%s\n",
            (long long)one->number, one->op, one->place, one->model, one->bit,
            hf_dev_outcome_name((int)one->off), guarded ? guarded : "-",
            (long long)one->proof.visits, (long long)one->proof.struck,
            (long long)one->proof.altered, (long long)c->checked, (long long)c->suspected,
            (long long)c->confirmed, (long long)c->repaired, (long long)c->rolled_back,
            (int)one->kind, one->unit, one->lane, one->line);
    table->there++;
    return fflush(table->file) == 0 ? EXIT_DONE : failed(table->path, "cannot be written");
}

static int is_table(const struct dirent *entry) {
    const size_t length = strlen(entry->d_name);
    return strncmp(entry->d_name, "faults", 6) == 0 && length > 4 &&
           strcmp(entry->d_name + length - 4, ".tsv") == 0;
}

int inject_table_read(const struct inject_options *o, inject_row_fn *each, void *user) {
    struct dirent **entry = NULL;
    int code = EXIT_DONE;
    const int count = scandir(o->out_dir, &entry, is_table, alphasort);
    if (count < 0)
        return failed(o->out_dir, "cannot be read");
    for (int i = 0; i < count; i++) {
        char *path = join(o->out_dir, entry[i]->d_name);
        long end;
        if (code == EXIT_DONE)
            code = path ? read_file(o, path, each, user, &end) : EXIT_RESOURCES;
        free(path);
        free(entry[i]);
    }
    free(entry);
    return code;
}
