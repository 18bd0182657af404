/* SPDX-License-Identifier: Apache-2.0
 * Words for methods, stops and ways of exchange. */
#include <holdfast/relax.h>

static const char *const method_names[] = {"auto",    "jacobi", "gauss-seidel", "async",
                                           "schwarz", "cg",     "chebyshev"};

const char *hf_relax_method_name(hf_relax_method method) {
    const int count = (int)(sizeof method_names / sizeof method_names[0]);
    return (int)method >= 0 && (int)method < count ? method_names[method] : NULL;
}

const char *hf_relax_exchange_name(hf_relax_exchange exchange) {
    static const char *const names[] = {"push", "amc", "dc", "dk"};
    const int count = (int)(sizeof names / sizeof names[0]);
    return (int)exchange >= 0 && (int)exchange < count ? names[exchange] : NULL;
}

const char *hf_relax_stop_text(hf_relax_stop stop) {
    switch (stop) {
    case HF_RELAX_STOP_TOL:
        return "residual within the tolerance";
    case HF_RELAX_STOP_STALL:
        return "the residual no longer falls";
    case HF_RELAX_STOP_DIVERGED:
        return "the residual grew beyond bounds";
    case HF_RELAX_STOP_TIME:
        return "out of time";
    case HF_RELAX_STOP_MAX_ITER:
        return "reached the limit of iterations";
    case HF_RELAX_STOP_CANCELLED:
        return "cancelled";
    case HF_RELAX_STOP_BROKE_DOWN:
        return "the matrix is not positive definite";
    default:
        return "not stopped";
    }
}
