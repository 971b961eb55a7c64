#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "bridge.h"

int pm_options(const char *preset, int64_t cap_kalloc, mm_idxopt_t *io, mm_mapopt_t *mo)
{
	if (mm_set_opt(0, io, mo) < 0 || mm_set_opt(preset, io, mo) < 0)
		return -1;
	mo->flag |= MM_F_CIGAR | MM_F_EQX;
	mo->cap_kalloc = cap_kalloc;
	return 0;
}

mm_idx_t *pm_index(int n, const char **seq, const char **name, const mm_idxopt_t *io, mm_mapopt_t *mo)
{
	mm_idx_t *mi = mm_idx_str(io->w, io->k, io->flag & MM_I_HPC, io->bucket_bits, n, seq, name);
	if (mi)
		mm_mapopt_update(mo, mi); // occurrence cut-off of repetitive seeds
	return mi;
}

int pm_dump(const mm_idx_t *mi, const char *path)
{
	FILE *f = fopen(path, "wb");
	if (!f)
		return -1;
	mm_idx_dump(f, mi); // doesn't tell of errors, but the stream does
	int failed = ferror(f);
	int err = errno;
	if (fclose(f) != 0)
		return -1;
	errno = err;
	return failed ? -1 : 0;
}

mm_idx_t *pm_load(const char *path, mm_mapopt_t *mo)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	mm_idx_t *mi = mm_idx_load(f);
	fclose(f);
	if (mi)
		mm_mapopt_update(mo, mi); // occurrence cut-off of repetitive seeds
	return mi;
}

int64_t pm_differs(const mm_idx_t *mi, uint32_t contig, const char *seq)
{
	static const char letters[] = "ACGTN";
	const mm_idx_seq_t *s = &mi->seq[contig];
	for (uint32_t i = 0; i < s->len; i++) {
		uint64_t at = s->offset + i;
		uint32_t base = mi->S[at >> 3] >> ((at & 7) << 2) & 0xf;
		char want = seq[i];
		if (want == 'U')
			want = 'T';
		else if (want != 'A' && want != 'C' && want != 'G' && want != 'T')
			want = 'N';
		if (letters[base < 4 ? base : 4] != want)
			return i;
	}
	return -1;
}

int pm_map(const mm_idx_t *mi, const mm_mapopt_t *mo, mm_tbuf_t *buf, const char *name, const char *seq, int len, pm_hits *hits)
{
	int i;
	hits->n = hits->n_regs = 0;
	hits->hit = 0;
	hits->regs = mm_map(mi, len, seq, &hits->n_regs, buf, mo, name);
	if (hits->n_regs == 0)
		return 0;
	hits->hit = calloc(hits->n_regs, sizeof(pm_hit));
	if (hits->hit == 0) {
		pm_free(hits);
		return -1;
	}
	for (i = 0; i < hits->n_regs; ++i) {
		const mm_reg1_t *r = &hits->regs[i];
		pm_hit *h;
		if (r->parent != r->id || r->p == 0)
			continue;
		h = &hits->hit[hits->n++];
		h->contig = r->rid;
		h->start = r->rs;
		h->end = r->re;
		h->query_start = r->qs;
		h->query_end = r->qe;
		h->score = r->p->dp_score;
		h->nm = r->blen - r->mlen + r->p->n_ambi;
		h->mapq = r->mapq;
		h->reverse = r->rev;
		h->supplementary = !r->sam_pri;
		h->n_cigar = r->p->n_cigar;
		h->cigar = r->p->cigar;
	}
	return 0;
}

void pm_free(pm_hits *hits)
{
	int i;
	for (i = 0; i < hits->n_regs; ++i)
		free(hits->regs[i].p);
	free(hits->regs);
	free(hits->hit);
	hits->regs = 0;
	hits->hit = 0;
	hits->n = hits->n_regs = 0;
}
