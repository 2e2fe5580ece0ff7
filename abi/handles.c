/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/driver.h"
#include "base/atomic.h"

enum kind {
	KIND_OPAQUE,
	KIND_SIGNED,
	KIND_UNSIGNED,
	KIND_REAL,
	KIND_COMPLEX,
	KIND_BOOL,
	KIND_BYTES,
	N_KINDS
};

static const struct {
	uint8_t class, kind;
} rows[BPS_MPI_N_TYPES] = {
#define BPS_TYPE(name, class, kind, ompi, mpich, std) \
	[BPS_MPI_##name] = { BPS_CLASS_##class, KIND_##kind },
#include "abi/handles.def"
#undef BPS_TYPE
};

_Static_assert(BPS_MPI_TYPE_SLOTS >= 2 * BPS_MPI_N_TYPES, "the hash is too full");

/* Our type for what an element is and its size in bytes, from the library. */
static enum bps_dtype dtype_of(enum kind kind, int bytes)
{
	static const uint8_t by_size[N_KINDS][17] = {
		[KIND_SIGNED] = { [1] = BPS_I8,
		                  [2] = BPS_I16,
		                  [4] = BPS_I32,
		                  [8] = BPS_I64 },
		[KIND_UNSIGNED] = { [1] = BPS_U8,
		                    [2] = BPS_U16,
		                    [4] = BPS_U32,
		                    [8] = BPS_U64 },
		[KIND_REAL] = { [2] = BPS_F16, [4] = BPS_F32, [8] = BPS_F64 },
		[KIND_COMPLEX] = { [8] = BPS_C64, [16] = BPS_C128 },
		[KIND_BOOL] = { [1] = BPS_BOOL8 },
		[KIND_BYTES] = { [1] = BPS_BYTE },
	};

	return bytes > 0 && bytes <= 16 ? by_size[kind][bytes] : BPS_DTYPE_NONE;
}

/* The bytes of an element, or 0: the library has no such type, or it has holes. */
static int flat_bytes(const struct bps_mpi *mpi, bps_handle type)
{
	intptr_t lb = 0, extent = 0;
	int bytes = 0;

	if (mpi->Type_size(type, &bytes) != mpi->success ||
	    mpi->Type_get_extent(type, &lb, &extent) != mpi->success)
		return 0;
	return lb == 0 && extent == bytes && bytes > 0 && bytes <= UINT16_MAX ? bytes : 0;
}

void bps_abi_build_types(struct bps_mpi *mpi)
{
	for (size_t i = 0; i < BPS_MPI_N_TYPES; i++) {
		bps_handle handle = mpi->type[i] & mpi->handle_mask;
		int bytes = handle ? flat_bytes(mpi, mpi->type[i]) : 0;

		if (!bytes)
			continue;
		mpi->types[bps_abi_slot(mpi, handle)] = (struct bps_type){
			.handle = handle,
			.bytes = (uint16_t)bytes,
			.dtype = (uint8_t)dtype_of(rows[i].kind, bytes),
			.class = rows[i].class,
		};
	}
}

enum bps_dtype bps_abi_dtype(const struct bps_mpi *mpi, bps_handle type)
{
	const struct bps_type *entry = bps_abi_type(mpi, type);

	return entry ? entry->dtype : BPS_DTYPE_NONE;
}

enum bps_redop bps_abi_redop(const struct bps_mpi *mpi, bps_handle op)
{
	op &= mpi->handle_mask;
	for (int i = 1; op && i < BPS_N_REDOPS; i++)
		if (op == (mpi->op[i] & mpi->handle_mask))
			return (enum bps_redop)i;
	return BPS_REDOP_NONE;
}

bool bps_abi_reduction(const struct bps_mpi *mpi, bps_handle type, bps_handle op,
                       enum bps_dtype *ret_dtype, enum bps_redop *ret_op)
{
	const struct bps_type *entry = bps_abi_type(mpi, type);
	enum bps_redop redop = bps_abi_redop(mpi, op);

	if (!entry || entry->dtype == BPS_DTYPE_NONE ||
	    !bps_abi_legal(entry->class, redop))
		return false;
	*ret_dtype = entry->dtype;
	*ret_op = redop;
	return true;
}
