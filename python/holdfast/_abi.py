# SPDX-License-Identifier: Apache-2.0
"""Structs, constants and prototypes of the public C headers, as ctypes has them.

``python/tests/test_headers.py`` reads ``include/holdfast/*.h`` and compares every one of them.
"""

from __future__ import annotations

import ctypes as C

from . import _abi_matmul as _matmul
from . import _abi_relax as _relax
from ._abi_matmul import GemmArgs as GemmArgs
from ._abi_matmul import GemmFaults as GemmFaults
from ._abi_matmul import GemmReport as GemmReport

# Constants, by the type they belong to.
ENUMS: dict[str, dict[str, int]] = {
    "hf_status": {
        "HF_OK": 0,
        "HF_E_ARG": 1,
        "HF_E_DATA": 2,
        "HF_E_IO": 3,
        "HF_E_NOMEM": 4,
        "HF_E_UNSUPPORTED": 5,
        "HF_E_DEVICE": 6,
        "HF_E_CORRUPT": 7,
        "HF_E_CANCELLED": 8,
        "HF_E_INTERNAL": 9,
        "HF_E_BUSY": 10,
    },
    "hf_dtype": {
        "HF_DTYPE_NONE": 0,
        "HF_F32": 1,
        "HF_F64": 2,
        "HF_F16": 3,
        "HF_BF16": 4,
        "HF_U8": 5,
        "HF_I32": 6,
        "HF_I8": 7,
    },
    "hf_header": {"HF_HEADER_AUTO": 0, "HF_HEADER_YES": 1, "HF_HEADER_NO": 2},
    "hf_scale": {
        "HF_SCALE_NONE": 0,
        "HF_SCALE_STANDARD": 1,
        "HF_SCALE_ROBUST": 2,
        "HF_SCALE_MINMAX": 3,
    },
    "hf_metric": {"HF_EUCLIDEAN": 0, "HF_COSINE": 1, "HF_DOT": 2},
    "hf_init": {
        "HF_INIT_KMEANSPP": 0,
        "HF_INIT_KMEANS_PARALLEL": 1,
        "HF_INIT_RANDOM": 2,
        "HF_INIT_GIVEN": 3,
    },
    "hf_empty": {
        "HF_EMPTY_RELOCATE": 0,
        "HF_EMPTY_SPLIT": 1,
        "HF_EMPTY_KEEP": 2,
        "HF_EMPTY_ERROR": 3,
    },
    "hf_precision": {"HF_EXACT": 0, "HF_FAST": 1},
    "hf_centroids": {"HF_CENTROIDS_WIDE": 0, "HF_CENTROIDS_SAME": 1},
    "hf_skipping": {"HF_SKIP_AUTO": 0, "HF_SKIP_OFF": 1, "HF_SKIP_ON": 2},
    "hf_nan": {"HF_NAN_ERROR": 0, "HF_NAN_DROP": 1},
    "hf_order": {"HF_ROW_MAJOR": 0, "HF_COL_MAJOR": 1},
    "hf_stop": {
        "HF_STOP_NONE": 0,
        "HF_STOP_LABELS": 1,
        "HF_STOP_TOL": 2,
        "HF_STOP_MAX_ITER": 3,
        "HF_STOP_CANCELLED": 4,
    },
    "hf_guard": {
        "HF_GUARD_DEFAULT": 0,
        "HF_GUARD_OFF": 1,
        "HF_GUARD_DETECT": 2,
        "HF_GUARD_CORRECT": 3,
        "HF_GUARD_SAMPLED": 4,
        "HF_GUARD_WEIGHTED": 5,
    },
    "hf_verdict": {"HF_VERDICT_NOT_RUN": 0, "HF_VERDICT_PASS": 1, "HF_VERDICT_FAIL": 2},
    "hf_gemm_plant": {
        "HF_GEMM_PLANT_NONE": 0,
        "HF_GEMM_PLANT_A": 1,
        "HF_GEMM_PLANT_SUM": 2,
        "HF_GEMM_PLANT_UNIT": 3,
        "HF_GEMM_PLANT_CARRY": 4,
        "HF_GEMM_PLANT_ADDRESS": 5,
        "HF_GEMM_PLANT_STUCK": 6,
        "HF_GEMM_PLANT_DROPPED": 7,
    },
    "hf_fault_kind": {
        "HF_FAULT_KIND_UNKNOWN": 0,
        "HF_FAULT_TRANSIENT": 1,
        "HF_FAULT_INTERMITTENT": 2,
        "HF_FAULT_PERMANENT": 3,
    },
    **_relax.ENUMS,
}

Status = C.c_int
Context = C.c_void_p
_P = C.POINTER


class Array(C.Structure):
    """hf_array."""

    _fields_ = [
        ("data", C.c_void_p),
        ("dtype", C.c_int),
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("row_stride", C.c_int64),
    ]


# message is the address of text that is to be written.
Read = C.CFUNCTYPE(Status, C.c_void_p, C.c_int64, C.c_int64, C.c_void_p, C.c_void_p, C.c_size_t)


class Source(C.Structure):
    """hf_source."""

    _fields_ = [
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("dtype", C.c_int),
        ("read", Read),
        ("user", C.c_void_p),
    ]


class ContextOpts(C.Structure):
    """hf_context_opts."""

    _fields_ = [
        ("device", C.c_char_p),
        ("threads", C.c_int),
        ("memory_bytes", C.c_uint64),
        ("stream", C.c_void_p),
    ]


class Scaling(C.Structure):
    """hf_scaling."""

    _fields_ = [
        ("method", C.c_int),
        ("cols", C.c_int64),
        ("shift", _P(C.c_double)),
        ("unit", _P(C.c_double)),
    ]


class PrepOpts(C.Structure):
    """hf_prep_opts."""

    _fields_ = [
        ("columns", _P(C.c_int64)),
        ("columns_count", C.c_int64),
        ("missing", _P(C.c_double)),
        ("missing_count", C.c_int64),
        ("scale", C.c_int),
        ("scaling", _P(Scaling)),
    ]


class OpenOpts(C.Structure):
    """hf_open_opts."""

    _fields_ = [
        ("memory_bytes", C.c_uint64),
        ("stream", C.c_int),
        ("float64", C.c_int),
        ("header", C.c_int),
        ("columns", C.c_char_p),
        ("skip_columns", C.c_char_p),
        ("missing", C.c_char_p),
        ("scale", C.c_int),
        ("scaling", _P(Scaling)),
    ]


class GuardCounts(C.Structure):
    """hf_guard_counts."""

    _fields_ = [
        ("checked", C.c_int64),
        ("suspected", C.c_int64),
        ("confirmed", C.c_int64),
        ("repaired", C.c_int64),
        ("rolled_back", C.c_int64),
        ("beyond", C.c_int64),
    ]


class FaultNote(C.Structure):
    """hf_fault_note."""

    _fields_ = [
        ("check", C.c_char_p),
        ("kernel", C.c_char_p),
        ("text", C.c_char_p),
        ("row", C.c_int64),
        ("column", C.c_int64),
        ("iteration", C.c_int),
        ("unit", C.c_int),
        ("kind", C.c_int),
        ("repaired", C.c_int),
        ("lane", C.c_int),
    ]


class Iteration(C.Structure):
    """hf_kmeans_iteration."""

    _fields_ = [
        ("inertia", C.c_double),
        ("shift", C.c_double),
        ("seconds", C.c_double),
        ("changed", C.c_int64),
        ("rows_skipped", C.c_int64),
        ("rows_partial", C.c_int64),
        ("rows_rechecked", C.c_int64),
        ("rows_float64", C.c_int64),
        ("empty", C.c_int64),
    ]


class Digest(C.Structure):
    """hf_kmeans_digest."""

    _fields_ = [
        ("chain", C.c_uint64),
        ("centroids", C.c_uint32 * 16),
        ("sizes", C.c_uint32 * 16),
    ]


Progress = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int, C.c_int, _P(Iteration), C.c_int64, C.c_int64)
Warn = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)
OnFault = C.CFUNCTYPE(None, C.c_void_p, _P(FaultNote))
OnDigest = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_int, _P(Digest))
RowsProgress = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int64, C.c_int64)
# distances is an address, from which whole chunks are copied.
TransformSink = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int64, C.c_int64, C.c_void_p)


class KMeansOpts(C.Structure):
    """hf_kmeans_opts."""

    _fields_ = [
        ("k", C.c_int64),
        ("metric", C.c_int),
        ("init", C.c_int),
        ("centroids", _P(Array)),
        ("n_init", C.c_int),
        ("seed", C.c_uint64),
        ("max_iter", C.c_int),
        ("tol", C.c_double),
        ("weights", _P(Array)),
        ("empty", C.c_int),
        ("precision", C.c_int),
        ("store", C.c_int),
        ("skipping", C.c_int),
        ("nan", C.c_int),
        ("checkpoint", C.c_char_p),
        ("checkpoint_every", C.c_int),
        ("resume", C.c_char_p),
        ("progress", Progress),
        ("progress_user", C.c_void_p),
        ("warn", Warn),
        ("warn_user", C.c_void_p),
        ("guard", C.c_int),
        ("on_fault", OnFault),
        ("on_fault_user", C.c_void_p),
        ("digest", OnDigest),
        ("digest_user", C.c_void_p),
    ]


class ColumnNote(C.Structure):
    """hf_column_note."""

    _fields_ = [
        ("column", C.c_int64),
        ("min", C.c_double),
        ("max", C.c_double),
        ("deviation", C.c_double),
        ("typical", C.c_double),
    ]


class KMeansResult(C.Structure):
    """hf_kmeans_result. Addresses of arrays are plain numbers: they are copied as a whole."""

    _fields_ = [
        ("n", C.c_int64),
        ("k", C.c_int64),
        ("d", C.c_int64),
        ("centroids", Array),
        ("labels", C.c_void_p),
        ("sizes", C.c_void_p),
        ("inertia", C.c_double),
        ("iterations", C.c_int),
        ("restart", C.c_int),
        ("stop", C.c_int),
        ("converged", C.c_int),
        ("clusters_found", C.c_int64),
        ("rows_dropped", C.c_int64),
        ("checkpoints_failed", C.c_int),
        ("widest", ColumnNote),
        ("history", C.c_void_p),
        ("seconds_init", C.c_double),
        ("seconds_iterate", C.c_double),
        ("seconds_finish", C.c_double),
        ("seconds_total", C.c_double),
        ("workspace_bytes", C.c_uint64),
        ("chunk_rows", C.c_int64),
        ("kernel_assign", C.c_char * 64),
        ("kernel_update", C.c_char * 64),
        ("guard", C.c_char * 16),
        ("checks", C.c_uint32),
        ("faults", GuardCounts),
    ]


class PredictOpts(C.Structure):
    """hf_predict_opts."""

    _fields_ = [
        ("metric", C.c_int),
        ("precision", C.c_int),
        ("nan", C.c_int),
        ("weights", _P(Array)),
        ("progress", RowsProgress),
        ("user", C.c_void_p),
        ("guard", C.c_int),
        ("on_fault", OnFault),
        ("on_fault_user", C.c_void_p),
        ("faults", _P(GuardCounts)),
        ("scheme", C.c_void_p),
        ("checks", _P(C.c_uint32)),
    ]


class Prediction(C.Structure):
    """hf_prediction. Outputs are addresses, on the host or a device."""

    _fields_ = [
        ("labels", C.c_void_p),
        ("distances", C.c_void_p),
        ("inertia", C.c_void_p),
        ("weight", C.c_void_p),
        ("sizes", C.c_void_p),
        ("rows_dropped", C.c_void_p),
    ]


STRUCTS: dict[str, type[C.Structure]] = {
    "hf_array": Array,
    "hf_source": Source,
    "hf_context_opts": ContextOpts,
    "hf_scaling": Scaling,
    "hf_prep_opts": PrepOpts,
    "hf_open_opts": OpenOpts,
    "hf_guard_counts": GuardCounts,
    "hf_fault_note": FaultNote,
    "hf_kmeans_iteration": Iteration,
    "hf_kmeans_digest": Digest,
    "hf_kmeans_opts": KMeansOpts,
    "hf_column_note": ColumnNote,
    "hf_kmeans_result": KMeansResult,
    "hf_predict_opts": PredictOpts,
    "hf_prediction": Prediction,
    **_relax.STRUCTS,
    **_matmul.STRUCTS,
}
CALLBACKS = {
    "hf_kmeans_progress": Progress,
    "hf_kmeans_warning": Warn,
    "hf_on_fault": OnFault,
    "hf_kmeans_on_digest": OnDigest,
    "hf_rows_progress": RowsProgress,
    "hf_transform_sink": TransformSink,
    "hf_relax_progress": _relax.RelaxProgress,
    **_matmul.CALLBACKS,
}

# name: (result, arguments). A pointer that is passed as the address of a struct is a void pointer:
# an address costs less to pass than what ctypes checks.
_a = C.c_void_p
PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "hf_status_text": (C.c_char_p, [Status]),
    "hf_dtype_name": (C.c_char_p, [C.c_int]),
    "hf_dtype_bytes": (C.c_size_t, [C.c_int]),
    "hf_version": (C.c_char_p, []),
    "hf_context_create": (Status, [_a, _a]),
    "hf_context_destroy": (None, [_a]),
    "hf_last_error": (C.c_char_p, [_a]),
    "hf_context_device": (C.c_char_p, [_a]),
    "hf_context_threads": (C.c_int, [_a]),
    "hf_context_memory": (C.c_uint64, [_a]),
    "hf_gemm": (Status, [_a, _a, _a]),
    "hf_gemm_guarded": (Status, [_a, _a, C.c_int, _a, _a]),
    "hf_gemm_most_tiles": (C.c_int64, [C.c_int64, C.c_int64, C.c_int64]),
    "hf_gemm_checksum": (C.c_char_p, [C.c_int]),
    "hf_gemm_checksum_text": (C.c_char_p, [C.c_int]),
    "hf_diagnose": (Status, [_a, _a]),
    "hf_redundant": (Status, [_a, _a]),
    "hf_verdict_text": (C.c_char_p, [C.c_int]),
    "hf_dataset_open": (Status, [_a, C.c_char_p, _a, _a]),
    "hf_dataset_close": (None, [_a]),
    "hf_dataset_array": (_P(Array), [_a]),
    "hf_dataset_source": (_P(Source), [_a]),
    "hf_dataset_format": (C.c_char_p, [_a]),
    "hf_dataset_type": (C.c_char_p, [_a]),
    "hf_dataset_column": (C.c_int64, [_a, C.c_int64, _a]),
    "hf_dataset_scaling": (_P(Scaling), [_a]),
    "hf_dataset_warning": (C.c_char_p, [_a]),
    "hf_write_npy": (Status, [_a, C.c_char_p, _a]),
    "hf_write_npy_matrix": (Status, [_a, C.c_char_p, _a]),
    "hf_write_file": (Status, [_a, C.c_char_p, _a, C.c_size_t]),
    "hf_write_check": (Status, [_a, C.c_char_p]),
    "hf_file_set_create": (Status, [_a, _a]),
    "hf_file_set_destroy": (None, [_a]),
    "hf_file_set_npy": (Status, [_a, C.c_char_p, _a]),
    "hf_file_set_npy_matrix": (Status, [_a, C.c_char_p, _a]),
    "hf_file_set_file": (Status, [_a, C.c_char_p, _a, C.c_size_t]),
    "hf_file_set_begin": (Status, [_a, C.c_char_p, C.c_int, C.c_int64, C.c_int64]),
    "hf_file_set_append": (Status, [_a, _a, C.c_size_t]),
    "hf_file_set_end": (Status, [_a]),
    "hf_file_set_at": (C.c_int, [_a, C.c_int, _a, _a]),
    "hf_file_set_commit": (Status, [_a, _a]),
    "hf_guard_name": (C.c_char_p, [C.c_int]),
    "hf_guard_check_name": (C.c_char_p, [C.c_int]),
    "hf_fault_kind_text": (C.c_char_p, [C.c_int]),
    "hf_kmeans_fit": (Status, [_a, _a, _a, _a]),
    "hf_kmeans_fit_source": (Status, [_a, _a, _a, _a]),
    "hf_kmeans_fit_batch": (Status, [_a, _a, C.c_int64, _a, _a]),
    "hf_kmeans_seed": (Status, [_a, _a, _a, _a, _a]),
    "hf_kmeans_result_clear": (None, [_a]),
    "hf_kmeans_predict": (
        Status,
        [_a, _a, _a, _a, C.c_int, C.c_int, _a, _a, _a, _a],
    ),
    "hf_kmeans_predict_with": (Status, [_a, _a, _a, _a, _a, _a]),
    "hf_kmeans_transform": (Status, [_a, _a, _a, _a, C.c_int, TransformSink, _a]),
    "hf_kmeans_transform_with": (Status, [_a, _a, _a, _a, _a, TransformSink]),
    "hf_stop_text": (C.c_char_p, [C.c_int]),
    "hf_scaling_apply": (Status, [_a, _a, _a, _a]),
    "hf_scaling_undo": (Status, [_a, _a, _a, _a]),
    "hf_prep_create": (Status, [_a, _a, _a, _a, _a]),
    "hf_prep_destroy": (None, [_a]),
    "hf_prep_source": (_P(Source), [_a]),
    "hf_prep_scaling": (_P(Scaling), [_a]),
    "hf_scale_name": (C.c_char_p, [C.c_int]),
    **_relax.PROTOTYPES,
}
