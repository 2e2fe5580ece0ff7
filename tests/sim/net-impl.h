/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files net*.c share: net.c has NICs and packets, net-tcp.c what a sender knows
 * of its packets, net-cubic.c its window, net-socket.c what the transport writes and
 * whose turn it is.
 */
#pragma once

#include "tests/sim/net.h"

#define BPS_SIM_MSS_BYTES     1448u
#define BPS_SIM_HEADERS_BYTES 66u
/* A packet without data. */
#define BPS_SIM_NO_SEG UINT64_MAX

enum bps_sim_seg_state { BPS_SIM_SEG_SENT, BPS_SIM_SEG_SACKED, BPS_SIM_SEG_LOST };

/* A segment that was sent: config.segment_packets packets at most, with one fate. */
struct bps_sim_seg {
	uint64_t sent_ns, order; /* of its last transmission */
	uint64_t end_seq;
	uint8_t state, n_packets;
	bool resent, received;
};

struct bps_sim_packet {
	struct bps_sim_packet *next; /* in a NIC's queue */
	struct bps_sim_end *from;
	uint64_t seg;       /* its number, or BPS_SIM_NO_SEG */
	uint64_t ack, high; /* of the other direction: all below ack, none from high on */
	uint32_t bytes;     /* on the wire */
};

enum bps_sim_tcp_state { BPS_SIM_TCP_OPEN, BPS_SIM_TCP_RECOVERY, BPS_SIM_TCP_LOSS };
enum bps_sim_turn { BPS_SIM_IDLE, BPS_SIM_WAITING, BPS_SIM_SENDING, BPS_SIM_STALLED };

/* Calls a function when it is due, however often it is put off. */
struct bps_sim_timer {
	uint64_t due_ns;   /* 0: never */
	uint64_t event_ns; /* of the earliest event that is left; 0: none */
};

struct bps_sim_cubic {
	double window, threshold; /* in packets */
	double peak, origin, k_s, reno;
	uint64_t epoch_ns; /* 0: none */
	uint64_t round_end;
	uint64_t round_rtt_ns;
	uint32_t n_rtts;
};

struct bps_sim_flow {
	struct bps_sim_end *end;
	/* the sender's */
	struct bps_sim_seg *segs; /* a ring of n_segs, a power of two */
	uint64_t n_segs, una, next;
	uint64_t queue_seq, write_seq, sent_seq, una_seq; /* bytes of the stream */
	uint64_t order, rack_order, recover_until, last_sent_ns;
	uint64_t srtt_ns, rttvar_ns, min_rtt_ns;
	uint32_t out, sacked, lost, max_out; /* packets */
	uint32_t n_backoffs, nic_bytes;
	enum bps_sim_tcp_state state;
	bool probed, force, limited, refused;
	struct bps_sim_cubic cubic;
	struct bps_sim_timer timer;
	/* the socket's */
	struct bps_list turn_link;
	enum bps_sim_turn turn;
	uint64_t stall_ns;
	/* the receiver's */
	uint64_t rcv_next, rcv_seq, high;
	uint64_t window_bytes, window_ns, window_seq;
	uint32_t n_unacked;
	struct bps_sim_timer ack_timer;
};

static inline struct bps_sim_seg *bps_sim_flow_seg(struct bps_sim_flow *flow,
                                                   uint64_t number)
{
	return &flow->segs[number & (flow->n_segs - 1)];
}

/** bps_sim_timer_set() - @fn(@flow) at @at_ns or a later time that is set before. */
void bps_sim_timer_set(struct bps_sim_flow *flow, struct bps_sim_timer *timer,
                       uint64_t at_ns, void (*fn)(void *flow));
/** bps_sim_timer_due() - in @fn: whether it is time; if not, it is called again. */
bool bps_sim_timer_due(struct bps_sim_flow *flow, struct bps_sim_timer *timer,
                       void (*fn)(void *flow));

/** bps_sim_nic_send() - segment @seg of @flow to the NIC. Return: false: it is full. */
bool bps_sim_nic_send(struct bps_sim_flow *flow, uint64_t seg, uint32_t bytes);
/** bps_sim_nic_burst() - bytes that a connection hands over at once. */
uint64_t bps_sim_nic_burst(const struct bps_sim_node *node);
/** bps_sim_flow_rtt() - a round trip took @rtt_ns (> 0). */
void bps_sim_flow_rtt(struct bps_sim_flow *flow, uint64_t rtt_ns);
/** bps_sim_flow_acked() - a packet with @ack and @high arrived at @flow's sender. */
void bps_sim_flow_acked(struct bps_sim_flow *flow, uint64_t ack, uint64_t high);
/** bps_sim_flow_send() - what window and NIC allow now. */
void bps_sim_flow_send(struct bps_sim_flow *flow);
/** bps_sim_flow_write() - what the socket takes now, and bps_sim_flow_send(). */
void bps_sim_flow_write(struct bps_sim_flow *flow);
/** bps_sim_msg_sent() - the socket has all of @msg. */
void bps_sim_msg_sent(struct bps_sim_msg *msg);
/** bps_sim_msg_here() - @msg, and all before it, have arrived. */
void bps_sim_msg_here(struct bps_sim_msg *msg);

/** bps_sim_cubic_start() - as a new connection's. */
void bps_sim_cubic_start(struct bps_sim_cubic *cubic);
/** bps_sim_cubic_acked() - @n_packets were acknowledged, the last after @rtt_ns or 0. */
void bps_sim_cubic_acked(struct bps_sim_flow *flow, uint32_t n_packets, uint64_t rtt_ns);
/** bps_sim_cubic_lost() - packets were lost; once for all of a window. */
void bps_sim_cubic_lost(struct bps_sim_flow *flow);
