# SPDX-License-Identifier: Apache-2.0
# The CUDA backend: HF_CUDA=ON needs nvcc, OFF leaves it out, AUTO takes it where it is. Sets
# HF_CUDA_DEFINITIONS (HF_HAVE_CUDA, HF_CUDA_LEFT_OUT, HF_CUDA_OP_<op>=1 for each <op>_cuda.cu) and
# offers hf_add_cuda_objects(). Files named *_sm90*.cu, or in a folder sm90, are compiled for 9.0a
# alone (wgmma, setmaxnreg), all others for HF_CUDA_ARCHITECTURES. All of it is compressed; the
# driver unpacks a file's code when the first of its kernels is loaded.
set(HF_CUDA AUTO CACHE STRING "NVIDIA GPUs: ON, OFF or AUTO")
set_property(CACHE HF_CUDA PROPERTY STRINGS ON OFF AUTO)
# For newer GPUs the driver compiles the PTX of 9.0 when it is first needed. Each further entry
# spares one of them this and adds a quarter to the time that the build takes.
set(HF_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "GPUs to compile for, as CMake names them")

set(HF_HAVE_CUDA 0)
set(why "configured with HF_CUDA=OFF")
if(HF_CUDA STREQUAL "AUTO" AND HF_SANITIZE)
  set(why "builds with sanitizers leave it out")
elseif(HF_CUDA)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(HF_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda/bin /opt/cuda/bin)
    if(HF_NVCC)
      set(CMAKE_CUDA_COMPILER "${HF_NVCC}")
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${HF_CUDA_ARCHITECTURES})
  check_language(CUDA)
  set(why "no CUDA compiler (nvcc) was found")
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    set(why "nvcc was found, but not the CUDA toolkit's headers and libraries")
    if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 12.3)
      set(why "the CUDA toolkit is older than 12.3")
    elseif(CUDAToolkit_FOUND)
      set(HF_HAVE_CUDA 1)
    endif()
  endif()
  if(HF_CUDA STREQUAL "ON" AND NOT HF_HAVE_CUDA)
    message(FATAL_ERROR "HF_CUDA=ON: ${why}")
  endif()
endif()

if(NOT HF_HAVE_CUDA)
  message(STATUS "CUDA left out: ${why}")
  set(HF_CUDA_DEFINITIONS "HF_HAVE_CUDA=0" "HF_CUDA_LEFT_OUT=\"${why}\"")
  function(hf_add_cuda_objects objects)
  endfunction()
  function(hf_add_cuda_harness objects)
  endfunction()
  return()
endif()

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

set(HF_CUDA_DEFINITIONS "HF_HAVE_CUDA=1")
set(HF_CUDA_LIBRARIES CUDA::cudart_static)
file(GLOB_RECURSE HF_CUDA_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/*.cu"
     "${PROJECT_SOURCE_DIR}/src/device/cuda/*.cu")
foreach(source IN LISTS HF_CUDA_SOURCES)
  if(source MATCHES "/ops/([a-z_]+)/(cuda/)?([a-z_]+)_cuda\\.cu$"
     AND CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_3)
    list(APPEND HF_CUDA_DEFINITIONS "HF_CUDA_OP_${CMAKE_MATCH_1}=1")
  endif()
endforeach()
# The filter's instances: a file for each class of columns and each type of rows, so that they are
# compiled side by side.
foreach(COLUMNS IN ITEMS 32 64 96 128 192 256 384 512)
  foreach(BF16 IN ITEMS false true)
    set(source "${PROJECT_BINARY_DIR}/sm90/filter_d${COLUMNS}_bf16_${BF16}.cu")
    configure_file("${PROJECT_SOURCE_DIR}/src/ops/assign/sm90/filter_instance.cu.in" "${source}"
                   @ONLY)
    list(APPEND HF_CUDA_SOURCES "${source}")
  endforeach()
endforeach()
file(GLOB HF_CUDA_HOST_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/device/cuda/*.c")

# What every .cu file is compiled with. Warnings of the host compiler and of both passes of nvcc.
add_library(hf_cuda_flags INTERFACE)
set(host_flags -Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics)
target_compile_options(
  hf_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${HF_WERROR}>>:-Werror=all-warnings>")
# By itself nvcc compresses PTX alone. HF_CUDA_SMALL: with the option that compresses best, which
# nvcc has since CUDA 12.8 and drivers unpack since that of 12.4.
include(CheckCompilerFlag)
check_compiler_flag(CUDA --compress-mode=size HF_CUDA_SMALL)
if(HF_CUDA_SMALL)
  set(compress --compress-mode=size)
else()
  set(compress -Xfatbin=-compress-all)
endif()
target_compile_options(hf_cuda_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:${compress}>)
target_include_directories(hf_cuda_flags INTERFACE "${PROJECT_SOURCE_DIR}/include"
                                                   "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(hf_cuda_flags INTERFACE ${HF_ISA_DEFINITIONS} ${HF_CUDA_DEFINITIONS})

# Append the kernels of the development library alone.
function(hf_add_cuda_harness objects)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/harness/*.cu")
  add_library(hf_cuda_harness OBJECT ${sources})
  target_link_libraries(hf_cuda_harness PRIVATE hf_cuda_flags)
  set(${objects} ${${objects}} $<TARGET_OBJECTS:hf_cuda_harness> PARENT_SCOPE)
endfunction()

# Append the objects of the backend to ${objects}.
function(hf_add_cuda_objects objects)
  set(all ${${objects}})
  set(hopper ${HF_CUDA_SOURCES})
  list(FILTER hopper INCLUDE REGEX "/sm90/|_sm90[^/]*\\.cu$")
  set(general ${HF_CUDA_SOURCES})
  list(FILTER general EXCLUDE REGEX "/sm90/|_sm90[^/]*\\.cu$")
  add_library(hf_cuda_host OBJECT ${HF_CUDA_HOST_SOURCES})
  target_link_libraries(hf_cuda_host PRIVATE hf_flags CUDA::toolkit)
  list(APPEND all $<TARGET_OBJECTS:hf_cuda_host>)
  foreach(part IN ITEMS general hopper)
    if(${part})
      add_library(hf_cuda_${part} OBJECT ${${part}})
      target_link_libraries(hf_cuda_${part} PRIVATE hf_cuda_flags)
      list(APPEND all $<TARGET_OBJECTS:hf_cuda_${part}>)
    endif()
  endforeach()
  if(hopper)
    set_target_properties(hf_cuda_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
  endif()
  set(${objects} ${all} PARENT_SCOPE)
endfunction()
