// Flat view of libminimap2 for cgo, which can't read bit fields or flexible
// array members.
#ifndef PORESTREAM_BRIDGE_H
#define PORESTREAM_BRIDGE_H

#include <stdint.h>
#include "minimap.h"

typedef struct {
	int32_t contig, start, end, query_start, query_end;
	int32_t score, nm, mapq;
	int32_t reverse, supplementary;
	uint32_t n_cigar;
	const uint32_t *cigar; // owned by hits.regs
} pm_hit;

typedef struct {
	int32_t n;      // hits in hit, secondary alignments left out
	pm_hit *hit;
	int32_t n_regs; // what minimap2 returned
	mm_reg1_t *regs;
} pm_hits;

// pm_options sets both option structs; 0, or -1 for an unknown preset.
int pm_options(const char *preset, int64_t cap_kalloc, mm_idxopt_t *io, mm_mapopt_t *mo);

// pm_index indexes n sequences, or returns NULL.
mm_idx_t *pm_index(int n, const char **seq, const char **name, const mm_idxopt_t *io, mm_mapopt_t *mo);

// pm_dump writes an index to a file; 0, or -1 with errno.
int pm_dump(const mm_idx_t *mi, const char *path);

// pm_load reads an index that was checked before, or returns NULL.
mm_idx_t *pm_load(const char *path, mm_mapopt_t *mo);

// pm_differs returns where a sequence of an index differs first from another one of its length,
// or -1 if it doesn't.
int64_t pm_differs(const mm_idx_t *mi, uint32_t contig, const char *seq);

// pm_map aligns one read; 0, or -1 when out of memory. The caller frees hits.
int pm_map(const mm_idx_t *mi, const mm_mapopt_t *mo, mm_tbuf_t *buf, const char *name, const char *seq, int len, pm_hits *hits);
void pm_free(pm_hits *hits);

// pm_job is a read that a pool's thread aligns, and what became of it.
typedef struct pm_job {
	struct pm_job *next;
	uintptr_t caller; // who waits for it
	int failed;       // out of memory
	int len;
	pm_hits hits;
	char *name, *seq; // behind the job itself
} pm_job;

typedef struct pm_pool pm_pool;

// pm_pool_start starts n threads that align reads; NULL with errno. A byte is written to fd when
// jobs are done: for several together, but at once when there are no others to do.
pm_pool *pm_pool_start(const mm_idx_t *mi, const mm_mapopt_t *mo, int n, int fd);

// pm_pool_submit hands a read to the threads, which have a copy of it; 0, or -1 when out of memory.
int pm_pool_submit(pm_pool *p, uintptr_t caller, const char *name, int name_len, const char *seq, int len);

// pm_pool_done returns all jobs that are done, linked, or NULL. The caller gives each to pm_job_free.
pm_job *pm_pool_done(pm_pool *p);
void pm_job_free(pm_job *job);

// pm_pool_stop ends the threads, once all jobs are done. Nothing is written to fd after it.
void pm_pool_stop(pm_pool *p);

// pm_pool_free frees a pool that was stopped.
void pm_pool_free(pm_pool *p);

#endif
