/* SPDX-License-Identifier: Apache-2.0
 * Contexts for a library without a place to keep them in: calls come from any thread, several at a
 * time, and from children of a fork. */
#ifndef BLAS_CONTEXT_H
#define BLAS_CONTEXT_H

#include <holdfast/context.h>
#include <holdfast/guard.h>

/* A context for one call: the process's own, with HF_BLAS_THREADS threads, or if another thread is
 * using that, one of the calling thread with no others. Which it is makes no difference to results.
 * Ends the process with a message if there is no memory. The thread gives it back before it borrows
 * again. */
hf_context *blas_borrow(void);
void blas_return(void);

/* What is done about wrong arithmetic: HF_BLAS_GUARD says "off", "detect" or "correct", which is
 * the default; anything else ends the process with a message. To be called after blas_borrow(). */
hf_guard blas_guard(void);

#endif
