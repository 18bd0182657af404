/* SPDX-License-Identifier: Apache-2.0
 * What an error of the CUDA runtime means for a fit. Most that happen while kernels run are final:
 * every later call of the process on that GPU fails likewise. */
#include "device/cuda/own.h"

hf_status hf_cuda_status(cudaError_t error) {
    switch (error) {
    case cudaSuccess:
        return HF_OK;
    case cudaErrorMemoryAllocation:
        return HF_E_NOMEM;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
        return HF_E_UNSUPPORTED;
    default:
        return HF_E_DEVICE;
    }
}

const char *hf_cuda_advice(cudaError_t error) {
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
        return "the GPU's hardware failed; see `nvidia-smi -q -d ECC` and the system's log (Xid), "
               "then go on from the last checkpoint in a new process, on another GPU or after a "
               "reset";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorUnknown:
        return "a kernel of this process failed and the GPU takes no more work from it; see the "
               "system's log (Xid), then go on from the last checkpoint in a new process";
    case cudaErrorLaunchTimeout:
        return "the GPU also drives a display, which ends kernels that run long; use another GPU";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
        return "the GPU is gone, or others use it alone; see `nvidia-smi` and the system's log "
               "(Xid), then go on from the last checkpoint in a new process";
    default:
        return "";
    }
}
