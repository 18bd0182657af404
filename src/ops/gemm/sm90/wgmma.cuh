/* SPDX-License-Identifier: Apache-2.0
 * wgmma of 64 x 256 sums for both 16-bit types, each operand in shared memory with its products
 * (K) or its lines in one piece. */
#ifndef HF_GEMM_WGMMA_CUH
#define HF_GEMM_WGMMA_CUH

#include "device/cuda/ptx.cuh"

#define WGMMA_IO8(d, i)                                                                            \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_IO32(d, i)                                                                           \
    WGMMA_IO8(d, i), WGMMA_IO8(d, i + 8), WGMMA_IO8(d, i + 16), WGMMA_IO8(d, i + 24)
#define WGMMA_SUMS                                                                                 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "   \
    "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "   \
    "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "   \
    "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "   \
    "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "     \
    "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "   \
    "%123, %124, %125, %126, %127}"
#define WGMMA_256(types)                                                                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                     \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." types " " WGMMA_SUMS               \
                 ", %128, %129, p, 1, 1, %131, %132;\n}"                                           \
                 : WGMMA_IO32(d, 0), WGMMA_IO32(d, 32), WGMMA_IO32(d, 64), WGMMA_IO32(d, 96)       \
                 : "l"(a), "l"(b), "r"(add), "n"(TURN_A), "n"(TURN_B))

/* d = A B (+ d if add). TURN: the lines of the operand lie in one piece, not its products. */
template <bool BF16, int TURN_A, int TURN_B>
static __device__ __forceinline__ void wgmma_256(float (&d)[128], uint64_t a, uint64_t b, int add) {
    if constexpr (BF16)
        WGMMA_256("bf16.bf16");
    else
        WGMMA_256("f16.f16");
}

#endif
