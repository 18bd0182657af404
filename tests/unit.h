/* SPDX-License-Identifier: Apache-2.0
 * What every unit test includes first: cmocka wants these headers before its own. */
#ifndef HF_TEST_UNIT_H
#define HF_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#endif
