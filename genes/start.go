package genes

import "math"

const (
	// upstream is how many bases before a start codon are searched for the binding site of the ribosome.
	upstream = 20
	// motifWidth is the width of a binding site, as of AGGAGG.
	motifWidth = 6
	offsets    = upstream - motifWidth + 1
	motifs     = 2
	// flankUp and flankDown are the bases before a start codon and behind it whose composition counts.
	flankUp   = 30
	flankDown = 12
	// startRounds of expectation and maximisation are enough for a motif of six bases.
	startRounds = 8
)

// motif is a pattern of bases with a distance to the start codon that it keeps.
type motif struct {
	share  float64 // of genes that have it
	base   [motifWidth][4]float64
	offset [offsets]float64 // of its first base from the beginning of the upstream stretch
}

// startModel says how likely a place is where genes start, as log odds against a place between genes.
type startModel struct {
	scanned bool // the ribosome scans for the start, and binds nowhere
	kinds   [startKinds + 1]float64
	motifs  [motifs]motif
	plain   [4]float64 // composition between genes
	flank   [flankUp + flankDown][4]float64
	scores  [motifs][motifWidth][4]float64 // log odds of motifs' bases
	sites   siteOdds
}

// startContext is what is known around a start codon. Bases beyond the sequence's ends are unknown.
type startContext struct {
	kind int8
	base [flankUp + 3 + flankDown]byte
}

func contextAt(s []byte, at int, kind int8) (c startContext) {
	c.kind = kind
	for i := range c.base {
		if j := at - flankUp + i; j >= 0 && j < len(s) {
			c.base[i] = s[j]
		} else {
			c.base[i] = unknown
		}
	}
	return c
}

func (m *startModel) prepare() {
	for k := range m.motifs {
		for i := range motifWidth {
			for b := range 4 {
				m.scores[k][i][b] = math.Log(m.motifs[k].base[i][b] / m.plain[b])
			}
		}
	}
}

// site is the best place of a motif before a start.
type site struct {
	motif  int // -1: none
	offset int
}

// binding is the log odds that one of the motifs is before the start, over all its places, and the likeliest of them.
func (m *startModel) binding(s []byte, at int) (float64, site) {
	if m.scanned || at < upstream {
		return 0, site{motif: -1}
	}
	window := s[at-upstream : at]
	none := 1.0
	for k := range m.motifs {
		none -= m.motifs[k].share
	}
	sum, best, where := none, none, site{motif: -1}
	for k := range m.motifs {
		t := &m.motifs[k]
		scores := &m.scores[k]
		for o := range offsets {
			score := 0.0
			for i := range motifWidth {
				if b := window[o+i]; b != unknown {
					score += scores[i][b]
				}
			}
			if score < -6 {
				continue
			}
			p := float64(t.share * t.offset[o] * math.Exp(score))
			sum += p
			if p > best {
				best, where = p, site{k, o}
			}
		}
	}
	return math.Log(sum), where
}

// site is the log odds of the Shine-Dalgarno site before a start.
func (m *startModel) site(s []byte, at int) float64 {
	if m.scanned {
		return 0
	}
	return m.sites.value(sitesBefore(s, at))
}

// flanking is the log odds of the bases around a start, the binding site apart.
func (m *startModel) flanking(s []byte, at int) (up, down float64) {
	for i := range flankUp {
		if j := at - flankUp + i; j >= 0 && s[j] != unknown {
			up += m.flank[i][s[j]]
		}
	}
	for i := range flankDown {
		if j := at + 3 + i; j < len(s) && s[j] != unknown {
			down += m.flank[flankUp+i][s[j]]
		}
	}
	return up, down
}

// startPrior is what is known of starts before the genome is read, as counts.
type startPrior struct {
	Kinds  [startKinds]float64             `json:"kinds"`  // of starts
	Motif  [motifWidth][4]float64          `json:"motif"`  // bases of the binding site, shares
	Offset [offsets]float64                `json:"offset"` // of its place, shares
	Share  float64                         `json:"share"`  // of genes that have one
	Flank  [flankUp + flankDown][4]float64 `json:"flank"`  // of the bases around, log odds
	Sites  siteOdds                        `json:"sites"`
}

// startPriorGenes is the number of genes that the prior of starts counts as.
const startPriorGenes = 50

// newStarts are the models that the prior alone gives.
func newStarts(prior *startPrior, gc float64) *startModel {
	m := new(startModel)
	m.plain = [4]float64{(1 - gc) / 2, gc / 2, gc / 2, (1 - gc) / 2}
	m.motifs[0] = motif{share: prior.Share, base: prior.Motif, offset: prior.Offset}
	m.motifs[1] = flatMotif(m.plain)
	m.flank = prior.Flank
	m.kindsFrom(prior, [startKinds]float64{})
	m.prepare()
	return m
}

// flatMotif is a motif that says nothing and that no gene has.
func flatMotif(plain [4]float64) (m motif) {
	for i := range m.base {
		m.base[i] = plain
	}
	for i := range m.offset {
		m.offset[i] = 1.0 / offsets
	}
	return m
}

func (m *startModel) kindsFrom(prior *startPrior, own [startKinds]float64) {
	total, sum := 0.0, 0.0
	for k := range prior.Kinds {
		sum += prior.Kinds[k]
	}
	var n [startKinds]float64
	for k := range n {
		n[k] = float64(prior.Kinds[k]/sum*startPriorGenes) + own[k] + .1
		total += n[k]
	}
	for k := range n {
		codon := codonOf(startNames[k])
		m.kinds[k] = math.Log(n[k]/total) - math.Log(m.plain[codon>>4]*m.plain[codon>>2&3]*m.plain[codon&3])
	}
}

// learn adapts the models to the starts of a genome. between are the hexamers between genes.
func (m *startModel) learn(prior *startPrior, starts []startContext, between *hexamers) {
	var plain [4]float64
	total := 0.0
	for i, n := range between {
		plain[i&3] += n
		total += n
	}
	for b := range plain {
		m.plain[b] = (plain[b] + 1) / (total + 4)
	}
	var kinds [startKinds]float64
	for i := range starts {
		kinds[starts[i].kind]++
	}
	m.kindsFrom(prior, kinds)
	for i := range m.flank {
		var n [4]float64
		for k := range starts {
			place := i
			if i >= flankUp {
				place += 3
			}
			if b := starts[k].base[place]; b != unknown {
				n[b]++
			}
		}
		sum := 0.0
		for b := range n {
			n[b] += float64(startPriorGenes * m.plain[b] * math.Exp(prior.Flank[i][b]))
			sum += n[b]
		}
		for b := range n {
			m.flank[i][b] = math.Log(n[b] / sum / m.plain[b])
		}
	}
	m.motifs[0] = motif{share: prior.Share, base: prior.Motif, offset: prior.Offset}
	m.motifs[1] = seedMotif(m.plain, starts)
	for range startRounds {
		m.prepare()
		m.expect(prior, starts)
	}
	m.prepare()
}

// seedMotif begins the second motif with the word that is most in excess before the starts at one place: the box of a promoter where transcripts
// begin with the start codon, or another binding site.
func seedMotif(plain [4]float64, starts []startContext) motif {
	m := flatMotif(plain)
	if len(starts) < startPriorGenes {
		return m
	}
	var words [codons * codons]int
	bestWord, bestScore := 0, 0.0
	for o := range offsets {
		clear(words[:])
		for k := range starts {
			word, ok := 0, true
			for i := range motifWidth {
				b := starts[k].base[flankUp-upstream+o+i]
				ok = ok && b != unknown
				word = word<<2 | int(b&3)
			}
			if ok {
				words[word]++
			}
		}
		for w, n := range words {
			expected := float64(len(starts))
			for i := range motifWidth {
				expected *= plain[w>>(2*i)&3]
			}
			if score := float64(n) * math.Log(float64(n+1)/(expected+1)); score > bestScore {
				bestWord, bestScore = w, score
			}
		}
	}
	for i := range motifWidth {
		b := bestWord >> (2 * (motifWidth - 1 - i)) & 3
		for k := range 4 {
			m.base[i][k] = .2
		}
		m.base[i][b] = .4
	}
	m.share = .1
	return m
}

// expect is one round of expectation and maximisation over the motifs.
func (m *startModel) expect(prior *startPrior, starts []startContext) {
	var bases [motifs][motifWidth][4]float64
	var places [motifs][offsets]float64
	var shares [motifs]float64
	none := 1.0
	for k := range m.motifs {
		none -= m.motifs[k].share
	}
	for i := range starts {
		window := starts[i].base[flankUp-upstream : flankUp]
		var p [motifs][offsets]float64
		sum := none
		for k := range m.motifs {
			for o := range offsets {
				score := 0.0
				for j := range motifWidth {
					if b := window[o+j]; b != unknown {
						score += m.scores[k][j][b]
					}
				}
				p[k][o] = float64(m.motifs[k].share * m.motifs[k].offset[o] * math.Exp(score))
				sum += p[k][o]
			}
		}
		for k := range m.motifs {
			for o := range offsets {
				r := p[k][o] / sum
				shares[k] += r
				places[k][o] += r
				if r < 1e-3 {
					continue
				}
				for j := range motifWidth {
					if b := window[o+j]; b != unknown {
						bases[k][j][b] += r
					}
				}
			}
		}
	}
	n := float64(len(starts))
	for k := range m.motifs {
		t := &m.motifs[k]
		// The first motif is pulled to the prior's, the second to nothing.
		share, strength := prior.Share, float64(startPriorGenes)
		if k > 0 {
			share, strength = .02, startPriorGenes
		}
		t.share = (shares[k] + float64(share*strength)) / (n + strength)
		sum := 0.0
		for o := range offsets {
			pull := 1.0 / offsets
			if k == 0 {
				pull = prior.Offset[o]
			}
			places[k][o] += float64(20 * pull)
			sum += places[k][o]
		}
		for o := range offsets {
			t.offset[o] = places[k][o] / sum
		}
		for j := range motifWidth {
			sum := 0.0
			for b := range 4 {
				pull := m.plain[b]
				if k == 0 {
					pull = prior.Motif[j][b]
				}
				bases[k][j][b] += float64(10 * pull)
				sum += bases[k][j][b]
			}
			for b := range 4 {
				t.base[j][b] = bases[k][j][b] / sum
			}
		}
	}
}
