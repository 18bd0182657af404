# The headers use plain comments. For Doxygen: the one on top describes the file, one before a
# declaration describes it, one behind a member describes that member.
1s|^/\* SPDX.*|/** @file|
s|^\( *\)/\* |\1/** |
s|^\(.*[^ *].*\)/\* |\1/**< |
