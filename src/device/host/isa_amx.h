/* SPDX-License-Identifier: Apache-2.0
 * AVX-512 verbs plus AMX tiles (bf16 and int8). Only ops with a tile body have kernels here; the
 * others leave this set to avx512. */
#ifndef HF_ISA_AMX_H
#define HF_ISA_AMX_H

#include "device/host/isa_avx512.h"
#undef HF_ISA_TILES
#define HF_ISA_TILES 1

#endif
