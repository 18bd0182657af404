# SPDX-License-Identifier: Apache-2.0
"""What _abi has of the headers relax.h and sparse.h."""

from __future__ import annotations

import ctypes as C

_a = C.c_void_p
_P = C.POINTER
Status = C.c_int

ENUMS: dict[str, dict[str, int]] = {
    "hf_relax_method": {
        "HF_RELAX_AUTO": 0,
        "HF_RELAX_JACOBI": 1,
        "HF_RELAX_GAUSS_SEIDEL": 2,
        "HF_RELAX_ASYNC": 3,
        "HF_RELAX_SCHWARZ": 4,
        "HF_RELAX_CG": 5,
        "HF_RELAX_CHEBYSHEV": 6,
    },
    "hf_relax_precond": {
        "HF_PRECOND_AUTO": 0,
        "HF_PRECOND_JACOBI": 1,
        "HF_PRECOND_BLOCKS": 2,
    },
    "hf_relax_partition": {
        "HF_PARTITION_AUTO": 0,
        "HF_PARTITION_STRIPS": 1,
        "HF_PARTITION_GRAPH": 2,
    },
    "hf_relax_timing": {
        "HF_TIMING_TAGGED": 0,
        "HF_TIMING_FREE": 1,
    },
    "hf_relax_exchange": {
        "HF_EXCHANGE_PUSH": 0,
        "HF_EXCHANGE_AMC": 1,
        "HF_EXCHANGE_DC": 2,
        "HF_EXCHANGE_DK": 3,
    },
    "hf_relax_switch": {
        "HF_SWITCH_AUTO": 0,
        "HF_SWITCH_ON": 1,
        "HF_SWITCH_OFF": 2,
    },
    "hf_relax_stop": {
        "HF_RELAX_STOP_NONE": 0,
        "HF_RELAX_STOP_TOL": 1,
        "HF_RELAX_STOP_STALL": 2,
        "HF_RELAX_STOP_DIVERGED": 3,
        "HF_RELAX_STOP_TIME": 4,
        "HF_RELAX_STOP_MAX_ITER": 5,
        "HF_RELAX_STOP_CANCELLED": 6,
        "HF_RELAX_STOP_BROKE_DOWN": 7,
    },
}


class Csr(C.Structure):
    """hf_csr."""

    _fields_ = [
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("dtype", C.c_int),
        ("row_start", C.c_void_p),
        ("column", C.c_void_p),
        ("value", C.c_void_p),
    ]


RelaxProgress = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int64, C.c_int64, C.c_double)


class RelaxOpts(C.Structure):
    """hf_relax_opts."""

    _fields_ = [
        ("method", C.c_int),
        ("precond", C.c_int),
        ("partition", C.c_int),
        ("timing", C.c_int),
        ("tol", C.c_double),
        ("max_iter", C.c_int64),
        ("max_seconds", C.c_double),
        ("block_rows", C.c_int64),
        ("local_sweeps", C.c_int),
        ("overlap", C.c_int),
        ("damping", C.c_double),
        ("coarse", C.c_int),
        ("symmetric", C.c_int),
        ("inside", C.c_int),
        ("exchange", C.c_int),
        ("memory_bytes", C.c_uint64),
        ("progress", RelaxProgress),
        ("progress_user", C.c_void_p),
        ("one_launch", C.c_int),
        ("spares", C.c_int),
        ("devices", C.c_char_p),
        ("progress_seconds", C.c_double),
    ]


class RelaxColumn(C.Structure):
    """hf_relax_column."""

    _fields_ = [
        ("stop", C.c_int),
        ("iterations", C.c_int64),
        ("residual", C.c_double),
        ("history", C.c_void_p),
        ("history_count", C.c_int64),
        ("history_step", C.c_int64),
        ("checks", C.c_int64),
        ("refused", C.c_int64),
        ("seconds", C.c_double),
        ("seconds_launch", C.c_double),
    ]


class RelaxTakeover(C.Structure):
    """hf_relax_takeover."""

    _fields_ = [
        ("block", C.c_int64),
        ("iteration", C.c_int64),
        ("worker", C.c_int64),
        ("seconds", C.c_double),
    ]


class RelaxFaults(C.Structure):
    """hf_relax_faults."""

    _fields_ = [
        ("missed_forecasts", C.c_int64),
        ("rollbacks", C.c_int64),
        ("reloads", C.c_int64),
        ("takeovers", C.c_int64),
        ("taken_count", C.c_int64),
        ("taken", RelaxTakeover * 16),
    ]


class RelaxResult(C.Structure):
    """hf_relax_result."""

    _fields_ = [
        ("n", C.c_int64),
        ("rhs", C.c_int64),
        ("columns", _P(RelaxColumn)),
        ("stop", C.c_int),
        ("converged", C.c_int),
        ("residual", C.c_double),
        ("iterations", C.c_int64),
        ("method", C.c_int),
        ("precond", C.c_int),
        ("repeatable", C.c_int),
        ("lambda_min", C.c_double),
        ("lambda_max", C.c_double),
        ("damping", C.c_double),
        ("blocks", C.c_int64),
        ("overlap", C.c_int64),
        ("coarse", C.c_int),
        ("partition", C.c_char * 16),
        ("advice", C.c_char * 256),
        ("faults", RelaxFaults),
        ("seconds_setup", C.c_double),
        ("seconds_solve", C.c_double),
        ("setup_bytes", C.c_uint64),
        ("one_launch", C.c_int),
        ("devices", C.c_int),
        ("devices_lost", C.c_int),
        ("exchange", C.c_int),
    ]


class SparseInfo(C.Structure):
    """hf_sparse_info."""

    _fields_ = [
        ("format", C.c_char_p),
        ("layout", C.c_char_p),
        ("field", C.c_char_p),
        ("symmetry", C.c_char_p),
        ("file_elements", C.c_int64),
        ("elements", C.c_int64),
        ("duplicates", C.c_int64),
    ]


STRUCTS: dict[str, type[C.Structure]] = {
    "hf_csr": Csr,
    "hf_relax_opts": RelaxOpts,
    "hf_relax_column": RelaxColumn,
    "hf_relax_takeover": RelaxTakeover,
    "hf_relax_faults": RelaxFaults,
    "hf_relax_result": RelaxResult,
    "hf_sparse_info": SparseInfo,
}

PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "hf_relax_solve": (Status, [_a, _a, _a, _a, _a, _a]),
    "hf_relax_result_clear": (None, [_a]),
    "hf_relax_solve_batch": (Status, [_a, _a, _a, _a, C.c_int64, _a, _a]),
    "hf_relax_setup": (Status, [_a, _a, _a, _a]),
    "hf_relax_update_values": (Status, [_a, _a]),
    "hf_relax_solve_with": (Status, [_a, _a, _a, _a]),
    "hf_relax_apply": (Status, [_a, _a, _a, C.c_int, C.c_int]),
    "hf_relax_destroy": (None, [_a]),
    "hf_relax_method_name": (C.c_char_p, [C.c_int]),
    "hf_relax_exchange_name": (C.c_char_p, [C.c_int]),
    "hf_relax_stop_text": (C.c_char_p, [C.c_int]),
    "hf_sparse_open": (Status, [_a, C.c_char_p, C.c_uint64, _a]),
    "hf_sparse_close": (None, [_a]),
    "hf_sparse_csr": (_P(Csr), [_a]),
    "hf_sparse_about": (_P(SparseInfo), [_a]),
    "hf_sparse_dense": (Status, [_a, _a]),
}
