/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/atomic.h"

#define ALIGN_BYTES 64u

struct bps_pool {
	pthread_mutex_t lock;
	struct bps_list free;
	uint32_t bytes;
	uint32_t n_made; /* relaxed */
};

int bps_pool_new(uint32_t bytes, struct bps_pool **ret_pool)
{
	struct bps_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	bps_list_init(&pool->free);
	pool->bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
	*ret_pool = pool;
	return 0;
}

static void buf_release(struct bps_hold *hold)
{
	struct bps_buf *buf = BPS_CONTAINER_OF(hold, struct bps_buf, hold);

	pthread_mutex_lock(&buf->pool->lock);
	bps_list_push_front(&buf->pool->free, &buf->link);
	pthread_mutex_unlock(&buf->pool->lock);
}

static struct bps_buf *buf_new(struct bps_pool *pool)
{
	struct bps_buf *buf = calloc(1, sizeof(*buf));

	if (!buf)
		return NULL;
	buf->data = aligned_alloc(ALIGN_BYTES, pool->bytes);
	if (!buf->data) {
		free(buf);
		return NULL;
	}
	bps_add_relaxed(&pool->n_made, 1);
	buf->pool = pool;
	buf->hold.release = buf_release;
	bps_list_init(&buf->link);
	return buf;
}

struct bps_buf *bps_pool_get(struct bps_pool *pool)
{
	struct bps_list *link;
	struct bps_buf *buf;

	pthread_mutex_lock(&pool->lock);
	link = bps_list_pop_front(&pool->free);
	pthread_mutex_unlock(&pool->lock);
	buf = link ? BPS_CONTAINER_OF(link, struct bps_buf, link) : buf_new(pool);
	if (buf)
		buf->hold.refs = 1;
	return buf;
}

uint64_t bps_pool_bytes(struct bps_pool *pool)
{
	return (uint64_t)bps_load_relaxed(&pool->n_made) * pool->bytes;
}

void bps_pool_free(struct bps_pool *pool)
{
	struct bps_list *link;

	if (!pool)
		return;
	while ((link = bps_list_pop_front(&pool->free))) {
		struct bps_buf *buf = BPS_CONTAINER_OF(link, struct bps_buf, link);

		free(buf->data);
		free(buf);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
