# SPDX-License-Identifier: Apache-2.0
# The command. It reads JSON and writes PNG, which the library does not.
find_package(PkgConfig REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

file(GLOB_RECURSE HF_TOOL_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/holdfast/*.c")
if(HF_TOOL_SOURCES)
  add_executable(holdfast_cli ${HF_TOOL_SOURCES})
  set_target_properties(holdfast_cli PROPERTIES OUTPUT_NAME holdfast)
  target_compile_definitions(holdfast_cli PRIVATE ${HF_BUILD_DEFINITIONS} ${HF_ISA_DEFINITIONS}
                                                  "HF_VERSION=\"${PROJECT_VERSION}\"")
  target_include_directories(holdfast_cli PRIVATE "${PROJECT_SOURCE_DIR}/tools/holdfast")
  target_link_libraries(holdfast_cli PRIVATE hf_warnings holdfast_dev PkgConfig::JANSSON PNG::PNG)
endif()
