/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"
#include <signal.h>
#include <stddef.h>

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
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

bool interrupt_seen(void) { return seen != 0; }
