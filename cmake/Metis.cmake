# SPDX-License-Identifier: Apache-2.0
# METIS cuts graphs into parts. It is optional: without it blocks follow reverse Cuthill-McKee
# order. Not in the Python package, which must load without other libraries.
set(HF_METIS AUTO CACHE STRING "Cut graphs with METIS: AUTO (where it is found), ON or OFF")
set(HF_HAVE_METIS 0)
set(HF_METIS_LIBRARIES "")
set(HF_PC_METIS "")
if(HF_METIS AND NOT HF_PYTHON)
  find_path(HF_METIS_INCLUDE metis.h)
  find_library(HF_METIS_LIBRARY metis)
  mark_as_advanced(HF_METIS_INCLUDE HF_METIS_LIBRARY)
  if(HF_METIS_INCLUDE AND HF_METIS_LIBRARY)
    set(HF_HAVE_METIS 1)
    set(HF_METIS_LIBRARIES "${HF_METIS_LIBRARY}")
    set(HF_PC_METIS " -lmetis")
  elseif(NOT HF_METIS STREQUAL "AUTO")
    message(FATAL_ERROR "HF_METIS is ON, but metis.h or libmetis is not there: install "
                        "libmetis-dev, or configure with -DHF_METIS=OFF")
  endif()
endif()
