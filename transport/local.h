/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages inside a process, between a leader and the server that it carries: two
 * connections, one the other's peer, on one loop. Delivery happens at the end of the
 * loop's turn, never inside bps_conn_send().
 */
#pragma once

#include "transport/loop.h"
#include "transport/transport.h"

/**
 * bps_local_pair() - make two connected connections, both up (up() is called on both, at
 * the end of the turn). Bind both before the loop turns. Closing one takes the other down
 * in order. Return: 0 or -ENOMEM.
 */
int bps_local_pair(struct bps_loop *loop, struct bps_conn **ret_a,
                   struct bps_conn **ret_b);
