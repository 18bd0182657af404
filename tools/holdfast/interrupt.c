/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;

static void on_signal(int number) {
    if (seen) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this handler returns */
    }
    seen = 1;
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_seen(void) { return seen != 0; }
