# SPDX-License-Identifier: Apache-2.0
# What a Python wheel holds of the library: see pyproject.toml. Wheels have no symbolic links, so
# that the file has no version in its name; the package checks the version when it loads it.
set_property(TARGET holdfast_shared PROPERTY VERSION)
set_property(TARGET holdfast_shared PROPERTY SOVERSION)
target_link_libraries(holdfast_shared PRIVATE ${CMAKE_DL_LIBS})
# A wheel does not know where it will be installed: measurements lie beside the library.
set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/core/plan.c"
             PROPERTY COMPILE_DEFINITIONS HF_TUNING_BESIDE=1)
target_link_options(holdfast_shared PRIVATE -Wl,--strip-all)
install(TARGETS holdfast_shared LIBRARY DESTINATION . COMPONENT python)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tuning/" DESTINATION tuning COMPONENT python
        FILES_MATCHING PATTERN "*.tune")
