# SPDX-License-Identifier: Apache-2.0
"""k-means as a plain port to OpenCL has it (the design of the SYCL study that portability.py follows): a
work-item a point, every distance in float, sums by compare-and-swap. Neither exact nor repeatable. The
loader is called through ctypes, as the library calls it."""
import ctypes as C
import time

import numpy as np

SOURCE = b"""
__kernel void assign(__global const float *x, __global const float *c, __global int *label, int n, int k, int d) {
    const int i = get_global_id(0);
    if (i >= n) return;
    float least = INFINITY; int best = 0;
    for (int l = 0; l < k; l++) {
        float sum = 0;
        for (int j = 0; j < d; j++) { const float t = x[i * (long)d + j] - c[l * (long)d + j]; sum += t * t; }
        if (sum < least) { least = sum; best = l; }
    }
    label[i] = best;
}
static void add(volatile __global float *p, float v) {
    union { uint u; float f; } was, now;
    do { was.f = *p; now.f = was.f + v; } while (atomic_cmpxchg((volatile __global uint *)p, was.u, now.u) != was.u);
}
__kernel void update(__global const float *x, __global const int *label, __global float *sum, __global int *count,
                     int n, int d) {
    const int i = get_global_id(0);
    if (i >= n) return;
    atomic_inc(count + label[i]);
    for (int j = 0; j < d; j++) add(sum + label[i] * (long)d + j, x[i * (long)d + j]);
}
__kernel void mean(__global float *c, __global const float *sum, __global const int *count, int k, int d) {
    const int l = get_global_id(0);
    for (int j = 0; l < k && count[l] > 0 && j < d; j++) c[l * (long)d + j] = sum[l * (long)d + j] / count[l];
}
"""
READ_WRITE, COPY_HOST = 1, 32
POINTERS = ("GetPlatformIDs", "CreateContext", "CreateCommandQueue", "CreateBuffer", "CreateProgramWithSource",
            "CreateKernel")


class Naive:
    """Data and centroids on device number `index` of all platforms."""

    def __init__(self, x, index=0, group=64):
        self.cl = cl = C.CDLL("libOpenCL.so.1")
        for name in POINTERS[1:]:
            getattr(cl, "cl" + name).restype = C.c_void_p
        self.device = self._devices()[index]
        self.group, self.x = group, np.ascontiguousarray(x, "f4")
        error = C.c_int()
        devices = (C.c_void_p * 1)(self.device)
        self.context = C.c_void_p(cl.clCreateContext(None, 1, devices, None, None, C.byref(error)))
        self.queue = C.c_void_p(cl.clCreateCommandQueue(self.context, C.c_void_p(self.device), C.c_uint64(0),
                                                        C.byref(error)))
        text = C.c_char_p(SOURCE)
        self.program = C.c_void_p(cl.clCreateProgramWithSource(self.context, 1, C.byref(text), None, C.byref(error)))
        self._check(cl.clBuildProgram(self.program, 1, devices, b"-cl-std=CL1.2", None, None))
        self.kernel = {name: C.c_void_p(cl.clCreateKernel(self.program, name.encode(), C.byref(error)))
                       for name in ("assign", "update", "mean")}
        n = self.x.shape[0]
        self.data, self.labels = self._buffer(self.x), self._buffer(np.zeros(n, "i4"))

    def _check(self, error):
        if error:
            raise RuntimeError(f"OpenCL error {error}")

    def _devices(self):
        platforms, count = (C.c_void_p * 16)(), C.c_uint()
        self._check(self.cl.clGetPlatformIDs(16, platforms, C.byref(count)))
        found = []
        for platform in platforms[:count.value]:
            devices, some = (C.c_void_p * 32)(), C.c_uint()
            if self.cl.clGetDeviceIDs(C.c_void_p(platform), C.c_uint64(0xFFFFFFFF), 32, devices, C.byref(some)) == 0:
                found += devices[:some.value]
        return found

    def _buffer(self, a):
        error = C.c_int()
        mem = self.cl.clCreateBuffer(self.context, C.c_uint64(READ_WRITE | COPY_HOST), C.c_size_t(a.nbytes),
                                     a.ctypes.data_as(C.c_void_p), C.byref(error))
        self._check(error.value)
        return C.c_void_p(mem)

    def _run(self, name, items, *args):
        """Seconds of a kernel, waited for."""
        for i, a in enumerate(args):
            self._check(self.cl.clSetKernelArg(self.kernel[name], i, C.c_size_t(C.sizeof(a)), C.byref(a)))
        size = (C.c_size_t * 1)((items + self.group - 1) // self.group * self.group)
        group = (C.c_size_t * 1)(self.group)
        begin = time.perf_counter()
        self._check(self.cl.clEnqueueNDRangeKernel(self.queue, self.kernel[name], 1, None, size, group, 0, None, None))
        self._check(self.cl.clFinish(self.queue))
        return time.perf_counter() - begin

    def iterate(self, centroids, iterations):
        """Seconds of (assign, update) of each iteration from these centroids; the labels of the last."""
        (n, d), k = self.x.shape, centroids.shape[0]
        c = self._buffer(np.ascontiguousarray(centroids, "f4"))
        times = []
        for _ in range(iterations):
            sums, counts = self._buffer(np.zeros((k, d), "f4")), self._buffer(np.zeros(k, "i4"))
            assign = self._run("assign", n, self.data, c, self.labels, C.c_int(n), C.c_int(k), C.c_int(d))
            update = self._run("update", n, self.data, self.labels, sums, counts, C.c_int(n), C.c_int(d))
            update += self._run("mean", k, c, sums, counts, C.c_int(k), C.c_int(d))
            for mem in (sums, counts):
                self.cl.clReleaseMemObject(mem)
            times.append((assign, update))
        self.cl.clReleaseMemObject(c)
        labels = np.empty(n, "i4")
        self._check(self.cl.clEnqueueReadBuffer(self.queue, self.labels, 1, C.c_size_t(0), C.c_size_t(labels.nbytes),
                                                labels.ctypes.data_as(C.c_void_p), 0, None, None))
        return times, labels
