# SPDX-License-Identifier: Apache-2.0
# Language, warnings and code generation for everything that is built here.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -O2 everywhere; the SIMD objects ask for -O3 themselves (cmake/Isa.cmake).
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

# Fused multiply-add only where the source says so: results must not depend on the compiler.
add_compile_options(-ffp-contract=off)
# Glibc's own extensions (affinity, file locks) are used in src/base.
add_compile_definitions($<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)

add_library(hf_warnings INTERFACE)
target_compile_options(
  hf_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                        $<$<BOOL:${HF_WERROR}>:-Werror>)

if(HF_SANITIZE)
  set(flags -fsanitize=${HF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_compile_options(${flags})
  add_link_options(${flags})
endif()
if(HF_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HF_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# What `holdfast info` says about the build.
set(HF_BUILD_DEFINITIONS
    "HF_BUILD_COMPILER=\"${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}\""
    "HF_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\"" "HF_BUILD_SANITIZE=\"${HF_SANITIZE}\"")
