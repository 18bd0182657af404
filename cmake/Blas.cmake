# SPDX-License-Identifier: Apache-2.0
# libholdfast_blas.so: sgemm and dgemm under the names of BLAS and CBLAS, for programs that exist.
# All of holdfast that it needs is inside, so that it can be preloaded from any place.
file(GLOB HF_BLAS_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/blas/*.c")
set(HF_BLAS_EXPORTS "${PROJECT_SOURCE_DIR}/blas/exports.map")
add_library(holdfast_blas SHARED ${HF_BLAS_SOURCES})
target_include_directories(holdfast_blas PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(holdfast_blas PRIVATE hf_warnings holdfast_static)
# Its threads must not lose their code to a program that closes the library.
target_link_options(holdfast_blas PRIVATE "-Wl,--version-script=${HF_BLAS_EXPORTS}"
                                          "-Wl,-z,nodelete")
set_target_properties(holdfast_blas PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${HF_SOVERSION}
                                               LINK_DEPENDS "${HF_BLAS_EXPORTS}"
                                               LINKER_LANGUAGE C)
