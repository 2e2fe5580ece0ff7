/* SPDX-License-Identifier: BSD-3-Clause */
/* Apart from tcp.c: the C library's header lacks the newer fields of struct tcp_info. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/tcp-conn.h"

void bps_tcp_count(const struct bps_conn *base, struct bps_conn_counts *ret_counts)
{
	bps_tcp_count_socket(BPS_CONTAINER_OF(base, struct bps_tcp_conn, base)->fd,
	                     ret_counts);
}

void bps_tcp_count_socket(int fd, struct bps_conn_counts *ret_counts)
{
	struct tcp_info info = { 0 }; /* an older kernel fills less of it */
	socklen_t bytes = sizeof(info);

	*ret_counts = (struct bps_conn_counts){ 0 };
	if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
		return;
	*ret_counts = (struct bps_conn_counts){
		.n_sent = info.tcpi_data_segs_out,
		.n_resent = info.tcpi_total_retrans,
		.n_unacked = info.tcpi_unacked,
		.n_ahead = info.tcpi_rcv_ooopack,
	};
}
