# SPDX-License-Identifier: Apache-2.0
# `cmake --build <folder> --target docs`: API reference from the public headers. Whatever is public
# and not described is an error.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/docs/Doxyfile.in")
  configure_file("${PROJECT_SOURCE_DIR}/docs/Doxyfile.in" "${PROJECT_BINARY_DIR}/Doxyfile" @ONLY)
  add_custom_target(
    docs COMMAND Doxygen::doxygen "${PROJECT_BINARY_DIR}/Doxyfile"
    COMMENT "API reference in ${PROJECT_BINARY_DIR}/api" VERBATIM)
endif()
