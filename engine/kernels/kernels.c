/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Picks the table of kernels that fits the processor.
 */
#include "engine/kernels/kernels.h"

#include "engine/kernels/table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/*
 * Below 0 until somebody asks. Relaxed on both sides: whoever finds it unset works out
 * the same number, and nothing else hangs on it.
 */
static int isa_known = -1;

#if defined(__x86_64__)

/* __builtin_cpu_supports() does not know it on every compiler. */
static int has_f16c(void)
{
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static enum bps_isa isa_of_processor(void)
{
	if (!__builtin_cpu_supports("avx2") || !has_f16c())
		return BPS_ISA_C;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return BPS_ISA_AVX512;
	return BPS_ISA_AVX2;
}

static const struct bps_kernel_table *table_of(enum bps_isa isa)
{
	static const struct bps_kernel_table *const tables[BPS_N_ISAS] = {
		[BPS_ISA_C] = &bps_kernels_c,
		[BPS_ISA_AVX2] = &bps_kernels_avx2,
		[BPS_ISA_AVX512] = &bps_kernels_avx512,
	};

	return tables[isa];
}

#else

static enum bps_isa isa_of_processor(void)
{
	return BPS_ISA_C;
}

static const struct bps_kernel_table *table_of(enum bps_isa isa)
{
	(void)isa;
	return &bps_kernels_c;
}

#endif

static enum bps_isa isa_in_use(void)
{
	int isa = __atomic_load_n(&isa_known, __ATOMIC_RELAXED);

	return isa >= 0 ? (enum bps_isa)isa : bps_kernels_init(BPS_N_ISAS - 1);
}

enum bps_isa bps_kernels_init(enum bps_isa max)
{
	enum bps_isa isa = isa_of_processor();

	if (isa > max)
		isa = max;
	__atomic_store_n(&isa_known, (int)isa, __ATOMIC_RELAXED);
	return isa;
}

bps_reduce_fn *bps_kernel(enum bps_dtype dtype, enum bps_redop op)
{
	if ((unsigned)dtype >= BPS_N_DTYPES || (unsigned)op >= BPS_N_REDOPS)
		return NULL;
	return table_of(isa_in_use())->reduce[dtype][op];
}

bps_reduce_fn *bps_kernel_push(enum bps_dtype dtype, enum bps_redop op)
{
	const struct bps_kernel_table *table = table_of(isa_in_use());

	if ((dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE) &&
	    (unsigned)op < BPS_N_REDOPS)
		return table->push[dtype - BPS_F16_WIDE][op];
	return bps_kernel(dtype, op);
}

bps_copy_fn *bps_copy(bool past_cache)
{
	const struct bps_kernel_table *table = table_of(isa_in_use());

	return past_cache ? table->copy_past : table->copy_near;
}

const char *bps_kernels_isa(void)
{
	static const char *const names[BPS_N_ISAS] = { "c", "avx2", "avx512" };

	return names[isa_in_use()];
}
