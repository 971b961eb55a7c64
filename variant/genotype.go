package variant

import (
	"cmp"
	"math"
	"slices"

	"github.com/porestream/porestream/stream/streampb"
)

// verdict is what is decided about a candidate.
type verdict struct {
	qual         float64  // Phred-scaled probability that the sample hasn't got the allele
	genotypeQual float64  // Phred-scaled probability that the genotype is another one
	genotype     []uint32 // allele numbers: 0 the reference, 1 the candidate
}

// maxQual caps qualities: no model of errors is believed beyond it.
const maxQual = 99

// phred is the Phred-scaled probability that something is wrong, from its natural
// log odds, rounded to two decimals.
func phred(logOdds float64) float64 {
	q := logAdd(0, logOdds) * 10 / math.Ln10
	return min(maxQual, max(0, math.Round(q*100)/100))
}

// analytic decides without a network, for haploid samples: of alleles that exclude
// each other the one with the best odds is called, if it is likelier than not.
func (r *Region) analytic(cs []candidate, model *errorModel) []*streampb.Call {
	order := make([]*candidate, len(cs))
	for i := range cs {
		order[i] = &cs[i]
	}
	slices.SortFunc(order, func(a, b *candidate) int { return cmp.Or(cmp.Compare(b.logOdds, a.logOdds), a.compare(b)) })
	var called []*candidate
	for _, c := range order {
		if c.logOdds > 0 && !slices.ContainsFunc(called, c.conflicts) {
			called = append(called, c)
		}
	}
	slices.SortFunc(called, (*candidate).compare)
	var out []*streampb.Call
	for _, c := range called {
		if q := phred(c.logOdds); q >= r.cfg.EmitQual {
			out = append(out, r.call(c, model, verdict{q, q, []uint32{1}}))
		}
	}
	return out
}

// calls turns what a tile holds into calls of its core.
func (r *Region) calls(t int, model *errorModel) []*streampb.Call {
	cs := r.gather(t, model)
	start, end := r.tileStart(t), r.tileEnd(t)
	return slices.DeleteFunc(r.analytic(cs, model), func(c *streampb.Call) bool {
		return int(c.GetPos()) <= start || int(c.GetPos()) > end
	})
}
