package eval

// Phasing compares the phase sets of both sides at heterozygous atoms that are matched and phased on both.
type Phasing struct {
	Sets  int `json:"sets"`  // pairs of a truth's and a query's phase set with two such atoms or more
	Pairs int `json:"pairs"` // neighbours among them: what can be wrong
	// Switches and Flips are the errors: a switch exchanges the haplotypes from one atom on, a flip those of one atom
	// alone, which is two switches in a row (as WhatsHap compare counts).
	Switches int `json:"switches"`
	Flips    int `json:"flips"`
	// ErrorRate is (Switches + 2 Flips) / Pairs, the share of neighbours whose relation is wrong.
	ErrorRate *float64 `json:"error_rate"`
}

// phasing follows the relation of truth and query along a contig.
type phasing struct {
	total Phasing
	sets  map[[2]int]*relation
}

// relation is that of two phase sets.
type relation struct {
	swapped bool
	pairs   int
	changed bool // at the neighbour before
}

// contig begins a contig: phase sets do not reach further.
func (p *phasing) contig() {
	for _, r := range p.sets {
		p.close(r)
	}
	p.sets = make(map[[2]int]*relation)
}

// close counts what is open.
func (p *phasing) close(r *relation) {
	if r.changed {
		p.total.Switches++
	}
	if r.pairs > 0 {
		p.total.Sets++
	}
	p.total.Pairs += r.pairs
}

// add takes the matched atoms of a cluster: the first of each side in each segment.
func (p *phasing) add(cl *cluster) {
	type segment struct{ first [2]*atom }
	var segments []segment
	numbers := make(map[int]int)
	for _, a := range cl.atoms {
		if !a.matched || !a.inside || !a.het() || !a.phased {
			continue
		}
		i, known := numbers[a.segment]
		if !known {
			i = len(segments)
			numbers[a.segment] = i
			segments = append(segments, segment{})
		}
		if segments[i].first[a.call.side] == nil {
			segments[i].first[a.call.side] = a
		}
	}
	for _, s := range segments {
		if s.first[truth] != nil && s.first[query] != nil {
			p.relate(s.first[truth], s.first[query])
		}
	}
}

// relate takes the next pair of matched atoms.
func (p *phasing) relate(t, q *atom) {
	swapped := t.swapped != q.swapped
	key := [2]int{t.group, q.group}
	r := p.sets[key]
	if r == nil {
		p.sets[key] = &relation{swapped: swapped}
		return
	}
	r.pairs++
	switch changed := swapped != r.swapped; {
	case changed && r.changed:
		p.total.Flips++
		r.changed = false
	case changed:
		r.changed = true
	case r.changed:
		p.total.Switches++
		r.changed = false
	}
	r.swapped = swapped
}

// result is the outcome after the last contig.
func (p *phasing) result() Phasing {
	p.contig()
	t := p.total
	t.ErrorRate = ratio(t.Switches+2*t.Flips, t.Pairs)
	return t
}
