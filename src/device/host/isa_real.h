/* SPDX-License-Identifier: Apache-2.0
 * One set of names for float32 and float64, for code that is written once and included for each:
 * define REAL_BITS as 32 or 64, include this, then the code. No guard: each time anew.
 *   REAL, VREAL, VMASK  an element, a vector, a mask;  REAL_LANES  elements of a vector
 *   OF_REAL(name)       name_f32 or name_f64;          VERB(name)  vf_name or vd_name */
#undef REAL
#undef REAL_INT
#undef REAL_INT_MAX
#undef VREAL
#undef VMASK
#undef VMASK_BITS
#undef REAL_LANES
#undef OF_REAL
#undef VERB

#if REAL_BITS == 32
#define REAL float
#define REAL_INT int32_t
#define REAL_INT_MAX INT32_MAX
#define VREAL vf
#define VMASK vm
#define VMASK_BITS vm_bits
#define REAL_LANES VW
#define OF_REAL(name) name##_f32
#define VERB(name) vf_##name
#else
#define REAL double
#define REAL_INT int64_t
#define REAL_INT_MAX INT64_MAX
#define VREAL vd
#define VMASK vdm
#define VMASK_BITS vdm_bits
#define REAL_LANES VDW
#define OF_REAL(name) name##_f64
#define VERB(name) vd_##name
#endif
