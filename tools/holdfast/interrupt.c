/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t seen;

/* A terminal that closes sends SIGHUP more than once: the shell and the kernel do. */
static void on_signal(int number) {
    if (seen && number != SIGHUP) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this handler returns */
    }
    seen = 1;
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

pid_t interrupt_fork(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t child = fork();
    for (int i = 0; child == 0 && i < 3; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == on_signal)
            signal(numbers[i], SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

bool interrupt_seen(void) { return seen != 0; }
