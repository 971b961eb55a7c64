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

#endif
