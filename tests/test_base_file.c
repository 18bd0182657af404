/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "hf-file-XXXXXX";

static const char *at(const char *name) {
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int entries(void) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(dir);
    return count;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return -1;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
            (void)unlink(at(e->d_name));
    (void)closedir(dir);
    return rmdir(folder);
}

static hf_status write_text(const char *path, const char *text, hf_error *err) {
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, path, err));
    const hf_status status = hf_file_write(file, text, strlen(text), err);
    if (status != HF_OK) {
        hf_file_abort(file);
        return status;
    }
    return hf_file_commit(file, err);
}

static void assert_content(const char *path, const char *text) {
    hf_error err = {""};
    void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(hf_file_read_all(path, 1 << 20, &data, &bytes, &err), HF_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
    hf_free(data);
}

static void assert_says(const hf_error *err, const char *a, const char *b) {
    if (strstr(err->text, a) == NULL || strstr(err->text, b) == NULL)
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err->text, a, b);
}

static void appears_whole(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *file = NULL;
    const char *path = at("plain");
    const int before = entries();
    assert_int_equal(hf_file_create(&file, path, &err), HF_OK);
    assert_int_equal(hf_file_write(file, "new", 3, &err), HF_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(hf_file_commit(file, &err), HF_OK);
    assert_content(path, "new");
    assert_int_equal(entries(), before + 1);
    assert_int_equal(write_text(path, "newer", &err), HF_OK);
    assert_content(path, "newer");
    assert_int_equal(entries(), before + 1);
}

static void abort_leaves_the_old_one(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *file = NULL;
    const char *path = at("kept");
    assert_int_equal(write_text(path, "old", &err), HF_OK);
    const int before = entries();
    assert_int_equal(hf_file_create(&file, path, &err), HF_OK);
    assert_int_equal(hf_file_write(file, "half", 4, &err), HF_OK);
    hf_file_abort(file);
    hf_file_abort(NULL);
    assert_content(path, "old");
    assert_int_equal(entries(), before);
}

/* Two writers of one path do not get in each other's way; the last commit stays. */
static void two_writers(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *a = NULL, *b = NULL;
    assert_int_equal(hf_file_create(&a, at("both"), &err), HF_OK);
    assert_int_equal(hf_file_create(&b, at("both"), &err), HF_OK);
    assert_int_equal(hf_file_write(a, "a", 1, &err), HF_OK);
    assert_int_equal(hf_file_write(b, "bb", 2, &err), HF_OK);
    assert_int_equal(hf_file_commit(a, &err), HF_OK);
    assert_content(at("both"), "a");
    assert_int_equal(hf_file_commit(b, &err), HF_OK);
    assert_content(at("both"), "bb");
}

/* Pieces of all sizes, through the buffer and past it. */
static void pieces(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 262143, 1, 262144, 300000, 7, 1000000, 0, 5};
    hf_error err = {""};
    hf_file *file = NULL;
    const size_t room = 3 << 20;
    unsigned char *want = hf_alloc(room);
    for (size_t i = 0; i < room; i++)
        want[i] = (unsigned char)hf_rng_bits(1, 1, i / 8);
    assert_int_equal(hf_file_create(&file, at("pieces"), &err), HF_OK);
    size_t used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(hf_file_write(file, want + used, sizes[i], &err), HF_OK);
        used += sizes[i];
    }
    assert_int_equal(hf_file_commit(file, &err), HF_OK);
    void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(hf_file_read_all(at("pieces"), room, &data, &bytes, &err), HF_OK);
    assert_int_equal(bytes, used);
    assert_memory_equal(data, want, used);
    hf_free(data);
    hf_free(want);
}

static void keeps_links_and_permissions(void **state) {
    (void)state;
    hf_error err = {""};
    struct stat st;
    assert_int_equal(write_text(at("target"), "old", &err), HF_OK);
    assert_int_equal(chmod(at("target"), 0640), 0);
    assert_int_equal(symlink("target", at("link")), 0);
    assert_int_equal(write_text(at("link"), "through", &err), HF_OK);
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_content(at("target"), "through");
    assert_int_equal(stat(at("target"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

/* A link is followed even where nothing is yet, into the folder it leads to. */
static void follows_links_to_nothing(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *file = NULL;
    struct stat st;
    assert_int_equal(mkdir(at("sub"), 0777), 0);
    assert_int_equal(symlink("sub/second", at("first")), 0);
    assert_int_equal(symlink("third", at("sub/second")), 0);
    assert_int_equal(write_text(at("first"), "far", &err), HF_OK);
    assert_content(at("sub/third"), "far");
    assert_int_equal(lstat(at("first"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink("circle", at("circle")), 0);
    assert_int_equal(hf_file_create(&file, at("circle"), &err), HF_E_IO);
    assert_says(&err, "circle", "links");
    assert_int_equal(unlink(at("sub/second")), 0);
    assert_int_equal(unlink(at("sub/third")), 0);
    assert_int_equal(rmdir(at("sub")), 0);
}

/* Leave the temporary file of a writer behind that was killed, or is still at it. */
static pid_t writer(const char *path, bool killed) {
    int ready[2];
    char byte = 0;
    hf_error err = {""};
    hf_file *file = NULL;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (hf_file_create(&file, path, &err) != HF_OK ||
            hf_file_write(file, "x", 1, &err) != HF_OK)
            _exit(1);
        if (write(ready[1], "r", 1) == 1)
            (void)pause();
        _exit(0);
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    if (killed) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    return child;
}

static void leftovers_of_killed_writers_go(void **state) {
    (void)state;
    hf_error err = {""};
    const char *path = at("restless");
    const int before = entries();
    for (int i = 0; i < 3; i++)
        (void)writer(path, true);
    assert_int_equal(entries(), before + 1); /* each removed the one before */
    const pid_t alive = writer(path, false);
    assert_int_equal(write_text(path, "done", &err), HF_OK);
    assert_content(path, "done");
    assert_int_equal(entries(), before + 2); /* the file, and what the living one writes */
    assert_int_equal(kill(alive, SIGKILL), 0);
    assert_int_equal(waitpid(alive, NULL, 0), alive);
    assert_int_equal(write_text(path, "again", &err), HF_OK);
    assert_int_equal(entries(), before + 1);
    assert_content(path, "again");
}

static void several_appear_together(void **state) {
    (void)state;
    static const char *const names[] = {"set-a", "set-b", "set-c"};
    hf_error err = {""};
    hf_file *files[3];
    int appeared = -1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            assert_int_equal(hf_file_create(&files[i], at(names[i]), &err), HF_OK);
            assert_int_equal(hf_file_write(files[i], round == 0 ? "one" : "two", 3, &err), HF_OK);
        }
        /* a folder that came in the way later stops the second time after the first file */
        if (round == 1) {
            assert_int_equal(unlink(at("set-b")), 0);
            assert_int_equal(mkdir(at("set-b"), 0777), 0);
        }
        const hf_status status = hf_file_commit_all(files, 3, &appeared, &err);
        assert_int_equal(status, round == 0 ? HF_OK : HF_E_IO);
        assert_int_equal(appeared, round == 0 ? 3 : 1);
        assert_content(at("set-a"), round == 0 ? "one" : "two");
        assert_content(at("set-c"), "one");
    }
    assert_says(&err, "set-b", "folder");
    assert_int_equal(rmdir(at("set-b")), 0);
}

static void refusals_name_path_and_remedy(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *file = NULL;
    assert_int_equal(hf_file_create(&file, at("no/such/folder"), &err), HF_E_IO);
    assert_says(&err, "no/such/folder", "folders are not created");
    assert_int_equal(hf_file_create(&file, folder, &err), HF_E_IO);
    assert_says(&err, folder, "it is a folder");
    assert_int_equal(hf_file_create(&file, "/dev/null", &err), HF_E_IO);
    assert_says(&err, "/dev/null", "not a regular file");
    char path[6000];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_int_equal(hf_file_create(&file, path, &err), HF_E_IO);
    path[300] = '\0';
    assert_int_equal(hf_file_create(&file, path, &err), HF_E_IO);
    assert_says(&err, "File name too long", "choose a shorter name");
    assert_null(file);
    if (geteuid() == 0) {
        print_message("not tried as root, who may write everywhere: a read-only folder\n");
        return;
    }
    assert_int_equal(chmod(folder, 0500), 0);
    assert_int_equal(hf_file_create(&file, at("denied"), &err), HF_E_IO);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_says(&err, "denied", "check the permissions");
}

/* The limit on file sizes stands for a full disk: write() fails in the middle of the data. */
static void no_room(void **state) {
    (void)state;
    hf_error err = {""};
    hf_file *file = NULL;
    struct rlimit old;
    assert_int_equal(write_text(at("full"), "old", &err), HF_OK);
    const int before = entries();
    const size_t bytes = 1 << 20;
    char *data = hf_alloc_zero(bytes);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit tight = {100000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_int_equal(hf_file_create(&file, at("full"), &err), HF_OK);
    const hf_status direct = hf_file_write(file, data, bytes, &err);
    hf_file_abort(file);
    hf_error late = {""};
    assert_int_equal(hf_file_create(&file, at("full"), &late), HF_OK);
    assert_int_equal(hf_file_write(file, data, 200000, &late), HF_OK); /* still in the buffer */
    const hf_status flushed = hf_file_commit(file, &late);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(direct, HF_E_IO);
    assert_says(&err, "full", "ulimit -f");
    assert_int_equal(flushed, HF_E_IO);
    assert_says(&late, "full", "ulimit -f");
    assert_content(at("full"), "old");
    assert_int_equal(entries(), before);
    hf_free(data);
}

static void reading(void **state) {
    (void)state;
    hf_error err = {""};
    void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(hf_file_read_all(at("absent"), 100, &data, &bytes, &err), HF_E_IO);
    assert_says(&err, "absent", "No such file");
    assert_int_equal(hf_file_read_all(folder, 100, &data, &bytes, &err), HF_E_IO);
    assert_says(&err, folder, "folder");
    assert_int_equal(write_text(at("ten"), "0123456789", &err), HF_OK);
    assert_int_equal(hf_file_read_all(at("ten"), 9, &data, &bytes, &err), HF_E_NOMEM);
    assert_says(&err, "ten", "9 bytes");
    assert_null(data);
    assert_int_equal(hf_file_read_all(at("ten"), 10, &data, &bytes, &err), HF_OK);
    assert_int_equal(bytes, 10);
    hf_free(data);
    assert_int_equal(write_text(at("empty"), "", &err), HF_OK);
    assert_int_equal(hf_file_read_all(at("empty"), 0, &data, &bytes, &err), HF_OK);
    assert_int_equal(bytes, 0);
    hf_free(data);
    /* a file that does not tell its size */
    assert_int_equal(hf_file_read_all("/proc/self/status", 1 << 20, &data, &bytes, &err), HF_OK);
    assert_true(bytes > 100);
    hf_free(data);
    data = NULL;
    assert_int_equal(hf_file_read_all("/proc/self/status", 50, &data, &bytes, &err), HF_E_NOMEM);
    assert_null(data);
}

static void checksum(void **state) {
    (void)state;
    unsigned char block[300];
    memset(block, 0, 32);
    assert_int_equal(hf_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(hf_crc32c(0, "", 0), 0);
    assert_int_equal(hf_crc32c(0, block, 32), 0x8a9136aau); /* RFC 3720, B.4 */
    memset(block, 0xff, 32);
    assert_int_equal(hf_crc32c(0, block, 32), 0x62a8ab43u);
    for (int i = 0; i < 300; i++)
        block[i] = (unsigned char)(i < 32 ? i : i * 7);
    assert_int_equal(hf_crc32c(0, block, 32), 0x46dd794eu);
    const uint32_t whole = hf_crc32c(0, block, 300);
    for (size_t cut = 0; cut <= 300; cut++)
        assert_int_equal(hf_crc32c(hf_crc32c(0, block, cut), block + cut, 300 - cut), whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_whole),
        cmocka_unit_test(abort_leaves_the_old_one),
        cmocka_unit_test(two_writers),
        cmocka_unit_test(pieces),
        cmocka_unit_test(keeps_links_and_permissions),
        cmocka_unit_test(follows_links_to_nothing),
        cmocka_unit_test(leftovers_of_killed_writers_go),
        cmocka_unit_test(several_appear_together),
        cmocka_unit_test(refusals_name_path_and_remedy),
        cmocka_unit_test(no_room),
        cmocka_unit_test(reading),
        cmocka_unit_test(checksum),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
