# SPDX-License-Identifier: Apache-2.0
"""What _abi has of the headers gemm.h and diagnose.h."""

from __future__ import annotations

import ctypes as C

_P = C.POINTER


class GemmArgs(C.Structure):
    """hf_gemm_args."""

    _fields_ = [
        ("order", C.c_int),
        ("trans_a", C.c_int),
        ("trans_b", C.c_int),
        ("m", C.c_int64),
        ("n", C.c_int64),
        ("k", C.c_int64),
        ("dtype", C.c_int),
        ("dtype_c", C.c_int),
        ("alpha", C.c_double),
        ("beta", C.c_double),
        ("a", C.c_void_p),
        ("b", C.c_void_p),
        ("c", C.c_void_p),
        ("lda", C.c_int64),
        ("ldb", C.c_int64),
        ("ldc", C.c_int64),
        ("batch", C.c_int64),
        ("stride_a", C.c_int64),
        ("stride_b", C.c_int64),
        ("stride_c", C.c_int64),
        ("signatures", C.c_void_p),
        ("portable", C.c_int),
    ]


class GemmSignatures(C.Structure):
    """hf_gemm_signatures."""

    _fields_ = [
        ("checksum", C.c_char_p),
        ("release", C.c_int),
        ("plant", C.c_int),
        ("plant_at", C.c_int64),
        ("a", C.c_uint64),
        ("b", C.c_uint64),
        ("c", C.c_uint64),
        ("panels", C.c_int64),
        ("tiles", C.c_int64),
        ("tile", C.c_void_p),
        ("tile_room", C.c_int64),
        ("plant_step", C.c_int64),
    ]


class GemmTile(C.Structure):
    """hf_gemm_tile."""

    _fields_ = [
        ("c", C.c_uint64),
        ("batch", C.c_int64),
        ("row", C.c_int64),
        ("col", C.c_int64),
        ("unit", C.c_int32),
        ("changed", C.c_int32),
        ("a", C.c_uint64),
        ("b", C.c_uint64),
    ]


class GemmFaults(C.Structure):
    """hf_gemm_faults."""

    _fields_ = [
        ("lines", C.c_int64),
        ("suspected", C.c_int64),
        ("confirmed", C.c_int64),
        ("repaired", C.c_int64),
        ("row", C.c_int64),
        ("column", C.c_int64),
    ]


class Diagnosis(C.Structure):
    """hf_diagnosis."""

    _fields_ = [
        ("verdict", C.c_int),
        ("number", C.c_int64),
        ("parts", C.c_int),
        ("passed", C.c_int),
        ("failed", C.c_int),
        ("cores", C.c_int),
        ("core", C.c_int),
        ("begin_s", C.c_double),
        ("seconds", C.c_double),
        ("kernel", C.c_char * 64),
        ("text", C.c_char * 200),
    ]


DiagnoseReport = C.CFUNCTYPE(C.c_int, C.c_void_p, _P(Diagnosis))
DiagnoseWait = C.CFUNCTYPE(C.c_int, C.c_void_p)


class DiagnoseOpts(C.Structure):
    """hf_diagnose_opts."""

    _fields_ = [
        ("interval_s", C.c_double),
        ("tests", C.c_int64),
        ("cores", C.c_void_p),
        ("core_count", C.c_int),
        ("go_on", C.c_int),
        ("report", DiagnoseReport),
        ("safe_state", DiagnoseReport),
        ("waiting", DiagnoseWait),
        ("user", C.c_void_p),
        ("plant", C.c_int),
        ("device", C.c_char_p),
    ]


class RedundantArgs(C.Structure):
    """hf_redundant_args."""

    _fields_ = [
        ("m", C.c_int64),
        ("n", C.c_int64),
        ("k", C.c_int64),
        ("a", C.c_void_p),
        ("b", C.c_void_p),
        ("c", C.c_void_p),
        ("replicas", C.c_int),
        ("same_core", C.c_int),
        ("plant", C.c_int),
        ("dtype", C.c_int),
        ("device", C.c_char_p),
    ]


class Replica(C.Structure):
    """hf_replica."""

    _fields_ = [
        ("core", C.c_int),
        ("units", C.c_int),
        ("verdict", C.c_int),
        ("operands", C.c_uint64),
        ("result", C.c_uint64),
        ("row", C.c_int64),
        ("column", C.c_int64),
        ("kernel", C.c_char * 64),
        ("device", C.c_char * 32),
    ]


class Vote(C.Structure):
    """hf_vote."""

    _fields_ = [
        ("verdict", C.c_int),
        ("majority", C.c_int),
        ("outvoted", C.c_int),
        ("replicas", C.c_int),
        ("replica", Replica * 3),
        ("text", C.c_char * 200),
    ]


class GemmReport(C.Structure):
    """hf_gemm_report."""

    _fields_ = [
        ("arithmetic", C.c_char * 48),
        ("kernel", C.c_char * 64),
        ("seconds", C.c_double),
        ("error", C.c_double),
        ("tiny", C.c_double),
        ("workspace_bytes", C.c_uint64),
    ]


STRUCTS: dict[str, type[C.Structure]] = {
    "hf_gemm_args": GemmArgs,
    "hf_gemm_report": GemmReport,
    "hf_gemm_signatures": GemmSignatures,
    "hf_gemm_tile": GemmTile,
    "hf_gemm_faults": GemmFaults,
    "hf_diagnosis": Diagnosis,
    "hf_diagnose_opts": DiagnoseOpts,
    "hf_redundant_args": RedundantArgs,
    "hf_replica": Replica,
    "hf_vote": Vote,
}
CALLBACKS = {
    "hf_diagnose_report": DiagnoseReport,
    "hf_diagnose_wait": DiagnoseWait,
}
