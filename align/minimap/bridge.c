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
