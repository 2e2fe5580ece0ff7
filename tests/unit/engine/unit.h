/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/sim/job.h"
#include "tests/sim/sim.h"
#include "tests/sim/world.h"
