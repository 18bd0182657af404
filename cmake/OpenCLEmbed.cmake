# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: the files TEXTS as arrays of bytes, since C limits how long a string may be.
set(arrays "")
set(table "")
foreach(path IN LISTS TEXTS)
  get_filename_component(name "${path}" NAME_WE)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REPLACE "0x0a," "0x0a,\n    " bytes "${bytes}") # a line of text a line
  string(APPEND arrays "static const char ${name}[] = {\n    ${bytes}};\n")
  string(APPEND table "    {\"${name}\", ${name}, sizeof ${name}},\n")
endforeach()
file(WRITE "${OUTPUT}"
     "#include \"device/opencl/cl_sources.h\"\n\n${arrays}\n"
     "const struct hf_cl_source hf_cl_sources[] = {\n${table}    {NULL, NULL, 0},\n};\n")
