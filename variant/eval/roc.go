package eval

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// point counts the atoms of one score.
type point struct{ truthTP, queryTP, queryFP int }

// rank counts the atoms of a cluster by score. An atom of the truth that was found has the least score of the query's
// atoms of its segment: at a higher threshold they don't spell it any more.
func (t *tally) rank(cl *cluster) {
	least := make(map[int]float64)
	for _, a := range cl.atoms {
		if a.call.side != query {
			continue
		}
		score := a.call.score
		if math.IsNaN(score) {
			score = missing
		}
		if a.right(t.genotypes) {
			if s, known := least[a.segment]; !known || score < s {
				least[a.segment] = score
			}
		}
		if !a.assessed(t.genotypes) {
			continue
		}
		p := t.point(a.kind, score)
		if a.right(t.genotypes) {
			p.queryTP++
		} else {
			p.queryFP++
		}
	}
	for _, a := range cl.atoms {
		if a.call.side == truth && a.assessed(t.genotypes) && a.right(t.genotypes) {
			score, known := least[a.segment]
			if !known {
				score = missing
			}
			t.point(a.kind, score).truthTP++
		}
	}
}

func (t *tally) point(k Kind, score float64) *point {
	p := t.scores[k][score]
	if p == nil {
		p = new(point)
		t.scores[k][score] = p
	}
	return p
}

// Curve is how true and false positives grow as the threshold of the score falls.
type Curve struct {
	Kind   string `json:"kind"`
	Truth  int    `json:"truth"` // atoms of the truth that are assessed
	Query  int    `json:"query"`
	Points []Point
}

// Point is a curve at one threshold: calls with this score or a higher one count.
type Point struct {
	Score                    float64 // -Inf: those without a score
	TruthTP, QueryTP, FP, FN int
	Precision, Recall, F1    float64
}

// roc returns the curves of all kinds together and of each.
func (t *tally) roc() []Curve {
	all := make(map[float64]*point)
	total := counts{}
	curves := make([]Curve, 1, 1+kinds)
	for k := range Kind(kinds) {
		c := t.cells[row{everywhere, k}]
		n := c.alleles
		if t.genotypes {
			n = c.genotypes
		}
		total.add(n)
		for score, p := range t.scores[k] { // sums: the order does not matter
			if all[score] == nil {
				all[score] = new(point)
			}
			all[score].truthTP += p.truthTP
			all[score].queryTP += p.queryTP
			all[score].queryFP += p.queryFP
		}
		curves = append(curves, curve(k.String(), n, t.scores[k]))
	}
	curves[0] = curve("ALL", total, all)
	return curves
}

func curve(kind string, n counts, points map[float64]*point) Curve {
	c := Curve{Kind: kind, Truth: n.TruthTP + n.TruthFN, Query: n.QueryTP + n.QueryFP}
	var sum point
	for _, score := range slices.SortedFunc(maps.Keys(points), func(a, b float64) int { return cmp.Compare(b, a) }) {
		p := points[score]
		sum.truthTP += p.truthTP
		sum.queryTP += p.queryTP
		sum.queryFP += p.queryFP
		at := counts{TruthTP: sum.truthTP, TruthFN: c.Truth - sum.truthTP, QueryTP: sum.queryTP, QueryFP: sum.queryFP}
		c.Points = append(c.Points, Point{
			Score: score, TruthTP: at.TruthTP, QueryTP: at.QueryTP, FP: at.QueryFP, FN: at.TruthFN,
			Precision: orZero(at.precision()), Recall: orZero(at.recall()), F1: orZero(at.f1()),
		})
	}
	return c
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// Best is the point with the greatest F1, the strictest of several; nil if the curve is empty.
func (c *Curve) Best() *Point {
	var best *Point
	for i := range c.Points {
		if best == nil || c.Points[i].F1 > best.F1 {
			best = &c.Points[i]
		}
	}
	return best
}

// WriteTSV writes the curve with the header and the columns of vcfeval's ROC files, so that rtg rocplot reads it.
func (c *Curve) WriteTSV(w io.Writer, score Score) error {
	b := fmt.Appendf(nil, "#Version porestream, ROC output 1.2\n#selection: %s\n#total baseline variants: %d\n#total call variants: %d\n#score field: %s\n", c.Kind, c.Truth, c.Query, score)
	b = append(b, "#score\ttrue_positives_baseline\tfalse_positives\ttrue_positives_call\tfalse_negatives\tprecision\tsensitivity\tf_measure\n"...)
	for _, p := range c.Points {
		if math.IsInf(p.Score, -1) {
			b = append(b, "None"...)
		} else {
			b = strconv.AppendFloat(b, p.Score, 'f', 3, 64)
		}
		b = fmt.Appendf(b, "\t%d.00\t%d.00\t%d.00\t%d.00\t%.4f\t%.4f\t%.4f\n", p.TruthTP, p.FP, p.QueryTP, p.FN, p.Precision, p.Recall, p.F1)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("writing ROC: %w", err)
	}
	return nil
}
