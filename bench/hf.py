# SPDX-License-Identifier: Apache-2.0
"""hf_kmeans_fit() of the shared library, called in-process. The structs of k-means are read from
include/holdfast/kmeans.h: the library must be of the same source tree."""
import ctypes as C
import os
import re
import time

import library
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {np.dtype("f4"): 1, np.dtype("f8"): 2, np.dtype("f2"): 3, np.dtype("u1"): 5}
TORCH_DTYPES = {"torch.float32": 1, "torch.float64": 2, "torch.float16": 3, "torch.bfloat16": 4,
                "torch.uint8": 5}
PROGRESS = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int, C.c_int, C.c_void_p, C.c_int64, C.c_int64)
GUARD_OFF = 1  # of hf_guard
SKIP = {"auto": 0, "off": 1, "on": 2}
INIT_RANDOM, INIT_GIVEN = 2, 3


class Array(C.Structure):
    _fields_ = [("data", C.c_void_p), ("dtype", C.c_int), ("rows", C.c_int64), ("cols", C.c_int64),
                ("row_stride", C.c_int64)]


class ContextOpts(C.Structure):
    _fields_ = [("device", C.c_char_p), ("threads", C.c_int), ("memory_bytes", C.c_uint64),
                ("stream", C.c_void_p)]


def members(name, known):
    """Of a struct of a public header, as ctypes wants them; `known`: types that are not C's own."""
    text = ""
    for header in ("guard.h", "kmeans.h"):
        with open(os.path.join(HERE, "..", "include", "holdfast", header)) as f:
            text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    types = dict({"double": C.c_double, "int": C.c_int, "int32_t": C.c_int32, "int64_t": C.c_int64,
                  "uint32_t": C.c_uint32, "uint64_t": C.c_uint64, "char": C.c_char, "void": None},
                 **known)
    types.update(dict.fromkeys(re.findall(r"typedef enum (\w+)", text), C.c_int))
    types.update(dict.fromkeys(re.findall(r"typedef \w+ \(\*(\w+)\)\(", text), C.c_void_p))
    fields = []
    for of, pointer, field, count in re.findall(
            r"(?:const )?(\w+) (\*?)(\w+)(?:\[(\d+)\])?;",
            re.search(r"typedef struct %s \{(.*?)\}" % name, text, re.S).group(1)):
        kind = types[of]
        if pointer:
            kind = {"char": C.c_char_p, "void": C.c_void_p}.get(of) or C.POINTER(kind)
        fields.append((field, kind * int(count) if count else kind))
    return fields


class GuardCounts(C.Structure):
    _fields_ = members("hf_guard_counts", {})


class Iteration(C.Structure):
    _fields_ = members("hf_kmeans_iteration", {})


class Opts(C.Structure):
    _fields_ = members("hf_kmeans_opts", {"hf_array": Array})


class ColumnNote(C.Structure):
    _fields_ = members("hf_column_note", {})


class Result(C.Structure):
    _fields_ = members("hf_kmeans_result", {"hf_array": Array, "hf_kmeans_iteration": Iteration,
                                            "hf_column_note": ColumnNote, "hf_guard_counts": GuardCounts})


class PredictOpts(C.Structure):
    _fields_ = members("hf_predict_opts", {"hf_array": Array, "hf_guard_counts": GuardCounts})


class Prediction(C.Structure):
    _fields_ = members("hf_prediction", {})


class Kernel(C.Structure):
    """hf_dev_kernel of include/holdfast/dev.h."""
    _fields_ = [("op", C.c_char_p), ("name", C.c_char_p), ("device", C.c_char_p), ("isa", C.c_char_p),
                ("dtypes", C.c_char * 48), ("tile", C.c_int * 3), ("reference", C.c_int),
                ("fixed_order", C.c_int), ("runs_here", C.c_int), ("why_not", C.c_char * 160)]


class Device(C.Structure):
    """hf_dev_device of the same."""
    _fields_ = [("name", C.c_char * 24), ("available", C.c_int), ("text", C.c_char * 200)]


class Rounds(C.Structure):
    _fields_ = [("rounds", C.c_int), ("calls", C.c_int), ("seconds", C.POINTER(C.c_double)),
                ("kernel", C.c_char * 64), ("rechecked", C.c_int64)]


class Shape(C.Structure):
    """hf_dev_shape of the same."""
    _fields_ = [("dtype", C.c_int * 3), ("dim", C.c_int64 * 4), ("flags", C.c_uint32)]


class TimeOpts(C.Structure):
    """hf_dev_time_opts of the same."""
    _fields_ = [("kernel", C.c_char_p), ("rounds", C.c_int), ("budget_s", C.c_double), ("data", C.c_char_p),
                ("checked_only", C.c_int), ("seed", C.c_uint64), ("ceiling", C.c_void_p)]


class Timing(C.Structure):
    """hf_dev_timing of the same."""
    _fields_ = [("op", C.c_char_p), ("kernel", C.c_char_p), ("shape", Shape), ("threads", C.c_int),
                ("rounds", C.c_int), ("median_s", C.c_double), ("min_s", C.c_double), ("max_s", C.c_double),
                ("flops", C.c_double), ("bytes", C.c_double), ("ceiling_s", C.c_double),
                ("ceiling_by", C.c_char_p), ("planned", C.c_int)]


def view(a):
    """Of a numpy array, or of a torch tensor wherever it lies; or such a view already."""
    if isinstance(a, Array):
        return a
    if hasattr(a, "data_ptr"):
        if not a.is_contiguous():
            raise ValueError("rows must follow each other without gaps")
        return Array(a.data_ptr(), TORCH_DTYPES[str(a.dtype)], a.shape[0], a.shape[1], a.shape[1])
    if not a.flags.c_contiguous:
        raise ValueError("rows must follow each other without gaps")
    return Array(a.ctypes.data, DTYPES[a.dtype], a.shape[0], a.shape[1], a.shape[1])


def unguarded(**given):
    """Options without protection, unless it is asked for: rivals have none."""
    return Opts(**{"guard": GUARD_OFF, **given})


class Holdfast:
    """A context with a number of threads, on the CPU or another device."""

    def __init__(self, path, threads, device="cpu", memory=0, create=True):
        lib = self.lib = C.CDLL(path)
        lib.hf_last_error.restype = C.c_char_p
        lib.hf_last_error.argtypes = [C.c_void_p]
        lib.hf_version.restype = C.c_char_p
        lib.hf_kmeans_fit.argtypes = [C.c_void_p, C.POINTER(Array), C.POINTER(Opts),
                                      C.POINTER(Result)]
        lib.hf_kmeans_result_clear.argtypes = [C.POINTER(Result)]
        lib.hf_context_destroy.argtypes = [C.c_void_p]
        lib.hf_context_create.argtypes = [C.POINTER(C.c_void_p), C.POINTER(ContextOpts)]
        self.ctx = C.c_void_p()
        self.opts = ContextOpts(device.encode(), threads, memory, None)
        if create:
            self._check(lib.hf_context_create(C.byref(self.ctx), C.byref(self.opts)))
        self.version = f"{lib.hf_version().decode()}, {library.origin(path)}"

    def close(self):
        self.lib.hf_context_destroy(self.ctx)
        self.ctx = C.c_void_p()

    def _check(self, status):
        if status:
            raise RuntimeError(f"holdfast: {self.lib.hf_last_error(self.ctx).decode()} "
                               f"(status {status})")

    def fit(self, x, init, max_iter, tol, skipping, **more):
        """Lloyd from the centroids `init`; tol as the library takes it; more: other members of
        hf_kmeans_opts. A dict."""
        xv, iv = view(x), view(init)
        opts = unguarded(k=init.shape[0], init=INIT_GIVEN, centroids=C.pointer(iv), max_iter=max_iter,
                    tol=tol, skipping=SKIP[skipping], **more)
        r = Result()
        begin = time.perf_counter()
        status = self.lib.hf_kmeans_fit(self.ctx, C.byref(xv), C.byref(opts), C.byref(r))
        call = time.perf_counter() - begin
        self._check(status)
        if (r.n, r.k, r.d) != (x.shape[0], init.shape[0], x.shape[1]):
            raise RuntimeError("the library's result struct is not that of include/holdfast/kmeans.h")
        return self._take(r, call)

    def _take(self, r, call=None):
        """A dict of what a fit gave, in a call of so many seconds; frees it."""
        record = np.dtype([(f, "f8" if t is C.c_double else "i8") for f, t in Iteration._fields_])
        raw = C.string_at(r.history, r.iterations * record.itemsize)
        history = [dict(zip(record.names, it)) for it in np.frombuffer(raw, record).tolist()]
        ctype = C.c_double if r.centroids.dtype == 2 else C.c_float
        shape = (r.k, r.centroids.row_stride or r.d)
        centroids = np.ctypeslib.as_array(C.cast(r.centroids.data, C.POINTER(ctype)), shape)
        out = {"labels": np.ctypeslib.as_array(r.labels, (r.n,)).copy(),
               "centroids": centroids[:, :r.d].copy(), "inertia": r.inertia,
               "iterations": r.iterations, "converged": bool(r.converged), "history": history,
               "seconds": {"init": r.seconds_init, "iterate": r.seconds_iterate,
                           "finish": r.seconds_finish, "total": r.seconds_total,
                           "call": call},
               "faults": {name: getattr(r.faults, name) for name, _ in GuardCounts._fields_},
               "kernels": [r.kernel_assign.decode(), r.kernel_update.decode()]}
        self.lib.hf_kmeans_result_clear(C.byref(r))
        return out

    def once(self, x, init, iterations, own=True):
        """Seconds of a fit from the centroids `init`, in a context of its own or in this one's."""
        xv, iv = view(x), view(init)
        opts = unguarded(k=iv.rows, init=INIT_GIVEN, centroids=C.pointer(iv), max_iter=iterations,
                    tol=-1, empty=2)
        ctx, r = C.c_void_p(), Result()
        begin = time.perf_counter()
        if own or not self.ctx:
            self._check(self.lib.hf_context_create(C.byref(ctx), C.byref(self.opts)))
        if not own:
            ctx = self.ctx = self.ctx or ctx
        made = time.perf_counter()
        status = self.lib.hf_kmeans_fit(ctx, C.byref(xv), C.byref(opts), C.byref(r))
        fitted = time.perf_counter()
        if status:
            raise RuntimeError(f"holdfast: {self.lib.hf_last_error(ctx).decode()}")
        parts = {"init": r.seconds_init, "iterate": r.seconds_iterate, "finish": r.seconds_finish}
        self.lib.hf_kmeans_result_clear(C.byref(r))
        if own:
            self.lib.hf_context_destroy(ctx)
        return dict(parts, context=made - begin, total=fitted - begin)

    def predict(self, x, centroids, **more):
        """Labels; more: members of hf_predict_opts."""
        xv, cv = view(x), view(centroids)
        labels = np.empty(xv.rows, "i4")
        opts, out = PredictOpts(**more), Prediction(labels.ctypes.data_as(C.POINTER(C.c_int32)))
        self._check(self.lib.hf_kmeans_predict_with(self.ctx, C.byref(xv), None, C.byref(cv), C.byref(opts),
                                                    C.byref(out)))
        return labels

    def start(self, x, k, init, iterations):
        """A fit of so many plain iterations that chooses its own first centroids."""
        xv = view(x)
        opts = unguarded(k=k, init=init, max_iter=iterations, tol=-1, seed=1, skipping=SKIP["off"])
        r = Result()
        self._check(self.lib.hf_kmeans_fit(self.ctx, C.byref(xv), C.byref(opts), C.byref(r)))
        return self._take(r)

    def fit_batch(self, xs, start, max_iter, tol, **more):
        """Problems of one shape from the same centroids `start` [k, d], or from `start` rows drawn
        at random. A dict each; seconds["call"] is the whole call."""
        views = (Array * len(xs))(*[view(x) for x in xs])
        opts = unguarded(max_iter=max_iter, tol=tol, **more)
        if isinstance(start, int):
            opts.k, opts.init, opts.seed = start, INIT_RANDOM, 1
        else:
            iv = view(start)
            opts.k, opts.init, opts.centroids = iv.rows, INIT_GIVEN, C.pointer(iv)
        results = (Result * len(xs))()
        self.lib.hf_kmeans_fit_batch.argtypes = [C.c_void_p, C.POINTER(Array), C.c_int64,
                                                 C.POINTER(Opts), C.POINTER(Result)]
        begin = time.perf_counter()
        status = self.lib.hf_kmeans_fit_batch(self.ctx, views, len(xs), C.byref(opts), results)
        call = time.perf_counter() - begin
        self._check(status)
        return [self._take(r, call) for r in results]

    def time_assign(self, x, centroids, labels, rounds, exact=True, calls=1, metric=0):
        """(seconds of a call in each round of so many back to back, kernel, rows rechecked in a
        call); libholdfast_dev only."""
        call = self.lib.hf_dev_time_assign
        call.argtypes = [C.c_void_p, C.POINTER(Array), C.POINTER(Array), C.c_int, C.c_int, C.c_void_p,
                         C.POINTER(Rounds)]
        xv, cv = view(x), view(centroids)
        seconds = (C.c_double * rounds)()
        timed = Rounds(rounds=rounds, calls=calls, seconds=seconds)
        self._check(call(self.ctx, C.byref(xv), C.byref(cv), metric, int(exact), labels.data_ptr(),
                         C.byref(timed)))
        return list(seconds), timed.kernel.decode(), timed.rechecked

    def time_op(self, op, dtype, dims, rounds):
        """{kernel: (median seconds, whether it is planned)} of all kernels of an op on generated data of one
        type; libholdfast_dev only."""
        shape = Shape(dtype=(dtype,), dim=tuple(dims))
        opts = TimeOpts(kernel=b"all", rounds=rounds)
        found = {}

        def each(_, timing):
            found[timing.contents.kernel.decode()] = (timing.contents.median_s, bool(timing.contents.planned))
        each = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(Timing))(each)
        self._check(self.lib.hf_dev_time(self.ctx, op.encode(), C.byref(shape), C.byref(opts), each, None))
        return found

    def kernels(self, op):
        """The kernels of an op, as dicts; libholdfast_dev only."""
        found, info = [], Kernel()
        while self.lib.hf_dev_kernel_at(op.encode(), len(found), C.byref(info)):
            found.append(dict(name=info.name.decode(), device=info.device.decode(),
                              dtypes=info.dtypes.decode(), runs=bool(info.runs_here),
                              reference=bool(info.reference)))
        return found

    def machine(self, device):
        """What the first device of that name is; libholdfast_dev only."""
        info, i = Device(), 0
        while self.lib.hf_dev_device_at(i, C.byref(info)):
            if info.name.decode().startswith(device):
                return info.text.decode()
            i += 1
        raise RuntimeError(f"no device {device}")
