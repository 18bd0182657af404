# SPDX-License-Identifier: Apache-2.0
# cmake -DPREFIX=... -DLIBDIR=... -P: make the loader see a library just installed there, or
# say what to do instead.
get_filename_component(LIBDIR "${LIBDIR}" ABSOLUTE BASE_DIR "${PREFIX}")
set(hint "programs that use the library need -Wl,-rpath,${LIBDIR} or LD_LIBRARY_PATH")
find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin)
if(NOT LDCONFIG)
  message(STATUS "There is no ldconfig here: ${hint}")
  return()
endif()
# All folders of the loader; nothing is written with -N and -X.
execute_process(COMMAND "${LDCONFIG}" -v -N -X OUTPUT_VARIABLE folders ERROR_QUIET)
string(REGEX REPLACE "^/usr" "" short "${LIBDIR}") # where /lib is a link it may be listed so
string(FIND "\n${folders}" "\n${LIBDIR}:" place)
string(FIND "\n${folders}" "\n${short}:" short_place)
if(place EQUAL -1 AND short_place EQUAL -1)
  message(STATUS "The loader does not look into ${LIBDIR}: ${hint}")
  return()
endif()
execute_process(COMMAND "${LDCONFIG}" RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(STATUS "Run ldconfig as root so that programs find the library in ${LIBDIR}; until then "
                 "${hint}")
else()
  message(STATUS "The loader knows ${LIBDIR}/libholdfast.so (ldconfig)")
endif()
