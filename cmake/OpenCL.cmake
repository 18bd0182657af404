# SPDX-License-Identifier: Apache-2.0
# The OpenCL backend needs nothing to be built: the loader is found when a program asks for it. The
# *.cl files become one C file, HF_OPENCL_SOURCES. Sets HF_OPENCL_DEFINITIONS, HF_OPENCL_OP_<op>=1
# for each <op>_opencl.c.
file(GLOB_RECURSE HF_OPENCL_TEXTS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/*.cl"
     "${PROJECT_SOURCE_DIR}/src/device/opencl/*.cl")
file(GLOB_RECURSE rows CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/*_opencl.c")
set(HF_OPENCL_DEFINITIONS "")
foreach(row IN LISTS rows)
  if(row MATCHES "/ops/([a-z]+)/(opencl/)?([a-z]+)_opencl\\.c$"
     AND CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_3)
    list(APPEND HF_OPENCL_DEFINITIONS "HF_OPENCL_OP_${CMAKE_MATCH_1}=1")
  endif()
endforeach()

set(HF_OPENCL_SOURCES "${PROJECT_BINARY_DIR}/cl_sources.c")
add_custom_command(
  OUTPUT "${HF_OPENCL_SOURCES}"
  COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${HF_OPENCL_SOURCES}" "-DTEXTS=${HF_OPENCL_TEXTS}" -P
          "${PROJECT_SOURCE_DIR}/cmake/OpenCLEmbed.cmake"
  DEPENDS ${HF_OPENCL_TEXTS} "${PROJECT_SOURCE_DIR}/cmake/OpenCLEmbed.cmake"
  VERBATIM)
