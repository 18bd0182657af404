# SPDX-License-Identifier: Apache-2.0
# Library, headers, command, man page, completion for bash, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS holdfast_shared holdfast_static EXPORT holdfast-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET holdfast_blas)
  install(TARGETS holdfast_blas LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
# The loader looks a new library up in its cache. A staged installation is not for this machine.
install(CODE "
  if(\"\$ENV{DESTDIR}\" STREQUAL \"\")
    execute_process(COMMAND \"\${CMAKE_COMMAND}\"
                    \"-DPREFIX=\${CMAKE_INSTALL_PREFIX}\" \"-DLIBDIR=${CMAKE_INSTALL_LIBDIR}\"
                    -P \"${PROJECT_SOURCE_DIR}/cmake/Ldconfig.cmake\")
  endif()")
# dev.h and dev_*.h belong to libholdfast_dev, which is not installed.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h"
        PATTERN "dev*.h" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tuning/" DESTINATION "${HF_TUNING_DIR}"
        FILES_MATCHING PATTERN "*.tune")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET holdfast_cli)
  install(TARGETS holdfast_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(EXISTS "${PROJECT_SOURCE_DIR}/man/holdfast.1")
    install(FILES "${PROJECT_SOURCE_DIR}/man/holdfast.1"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  endif()
  install(FILES "${PROJECT_SOURCE_DIR}/tools/holdfast/holdfast.bash"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME holdfast)
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/holdfast-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/holdfast-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/holdfast-config.cmake"
              "${PROJECT_BINARY_DIR}/holdfast-config-version.cmake" DESTINATION "${package_dir}")
install(EXPORT holdfast-targets NAMESPACE holdfast:: DESTINATION "${package_dir}")

# Paths in holdfast.pc are relative to the file itself, so that a moved prefix still works.
file(RELATIVE_PATH HF_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" HF_PC_TO_PREFIX "${HF_PC_TO_PREFIX}")
set(HF_PC_CUDA "")
if(HF_HAVE_CUDA)
  set(HF_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/holdfast.pc.in" "${PROJECT_BINARY_DIR}/holdfast.pc"
               @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/holdfast.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
