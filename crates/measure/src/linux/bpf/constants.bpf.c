// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Never loaded. This object passes the constants that the programs share with
 * user space. An enumeration reaches an object's type information (BTF) only
 * as the type of a variable.
 */
#include "kernel.h"
#include "board.h"
#include "flight.h"
#include "handlers.h"
#include "attach.h"

const volatile enum board_limit board_limit;
const volatile enum board_mark board_mark;
const volatile enum board_sharing board_sharing;
const volatile enum flight_kind flight_kind;
const volatile enum flight_vector flight_vector;
const volatile enum flight_before flight_before;
const volatile enum handler_buckets handler_buckets;
const volatile enum handler_kind handler_kind;
const volatile enum handler_places handler_places;
const volatile enum attach_kind attach_kind;
const volatile enum attach_route attach_route;
const volatile enum attach_phase attach_phase;
const volatile enum attach_process attach_process;
const volatile enum attach_unseen attach_unseen;
const volatile enum attach_end attach_end;
const volatile enum attach_no_call attach_no_call;
const volatile enum attach_lock attach_lock;
