/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/agree.h"

#include <assert.h>
#include <stdio.h>

#include "base/types.h"

/* A broadcast's type and count may differ between ranks: its bytes may not. */
static bool same_op(const struct bps_wire_hdr *a, const struct bps_wire_hdr *b)
{
	if (a->n_parts != b->n_parts || a->op_bytes != b->op_bytes ||
	    a->n_members != b->n_members || a->coll != b->coll)
		return false;
	if (a->coll == BPS_BCAST)
		return a->root == b->root;
	return a->dtype == b->dtype && a->redop == b->redop &&
	       a->payload_bytes == b->payload_bytes;
}

static bool is_root(const struct bps_wire_hdr *hdr)
{
	return hdr->coll == BPS_BCAST && hdr->member == hdr->root;
}

const char *bps_push_absurd(const struct bps_wire_hdr *hdr, bool known)
{
	uint32_t element = bps_dtype_bytes(hdr->dtype);

	if (hdr->member >= hdr->n_members || hdr->part >= hdr->n_parts)
		return "a part or member number is out of range";
	switch (hdr->coll) {
	case BPS_ALLREDUCE:
		if (element == 0 || !known)
			return "this server does not know the operation for this type";
		if (hdr->payload_bytes == 0 || hdr->payload_bytes % element != 0)
			return "a part is not a whole number of elements";
		return NULL;
	case BPS_BCAST:
		if (hdr->root >= hdr->n_members)
			return "the root is out of range";
		if ((hdr->payload_bytes != 0) != is_root(hdr))
			return "the root sent no data, or a leaf did";
		return NULL;
	default:
		return "this server does not know the collective";
	}
}

static void describe_op(const struct bps_wire_hdr *hdr, char *buf, size_t bytes)
{
	static const char *const dtypes[] = {
		"?",        "int8",    "int16",   "int32",     "int64",
		"uint8",    "uint16",  "uint32",  "uint64",    "float16",
		"bfloat16", "float32", "float64", "complex64", "complex128",
		"bool",     "byte",    "float16", "bfloat16",
	};
	static const char *const redops[] = { "?",   "SUM",  "PROD", "MIN", "MAX", "LAND",
		                              "LOR", "LXOR", "BAND", "BOR", "BXOR" };

	static_assert(sizeof(dtypes) / sizeof(dtypes[0]) == BPS_N_DTYPES, "a name each");
	static_assert(sizeof(redops) / sizeof(redops[0]) == BPS_N_REDOPS, "a name each");
	if (hdr->coll == BPS_BCAST)
		snprintf(buf, bytes, "rank %u: MPI_Bcast of %llu bytes from member %u",
		         hdr->peer, (unsigned long long)hdr->op_bytes, hdr->root);
	else
		snprintf(buf, bytes, "rank %u: MPI_Allreduce of %llu bytes, %s, %s",
		         hdr->peer,
		         (unsigned long long)bps_total_bytes(hdr->dtype, hdr->op_bytes),
		         dtypes[hdr->dtype < BPS_N_DTYPES ? hdr->dtype : 0],
		         redops[hdr->redop < BPS_N_REDOPS ? hdr->redop : 0]);
}

bool bps_push_disagrees(const struct bps_wire_hdr *first, const struct bps_wire_hdr *next,
                        char *text, size_t bytes)
{
	char ours[96], theirs[96];

	if (same_op(first, next))
		return false;
	describe_op(first, ours, sizeof(ours));
	describe_op(next, theirs, sizeof(theirs));
	snprintf(text, bytes, "ranks call different operations as number %llu (%s; %s)",
	         (unsigned long long)next->op, ours, theirs);
	return true;
}
