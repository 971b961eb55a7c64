package annotate

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// Score is what a sequence network says of an allele; by SpliceAI's rule there is one for each gene that the allele lies in.
type Score struct {
	Network string `json:"network"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256"`            // of the network and of how it is used
	Licence string `json:"licence,omitempty"` // the network's, which may hold for its scores
	Gene    string `json:"gene,omitempty"`
	// Score is the largest of Changes by its size; nil if there are none.
	Score   *float64      `json:"score,omitempty"`
	Changes []ScoreChange `json:"changes,omitempty"`
	// Unscored says why there are no changes.
	Unscored string `json:"unscored,omitempty"`
}

// ScoreChange is how far an output of a network is changed.
type ScoreChange struct {
	Name  string `json:"name"`
	Score Delta  `json:"score"`
	// Position is where, in bases from the allele's first, where a network says that.
	Position *int `json:"position,omitempty"`
}

// Delta is a change, rounded to the decimals that it is reported with.
type Delta float64

// MarshalJSON writes a number, and 0 without a sign.
func (d Delta) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d)+0, 'f', -1, 64), nil
}

// Spelled is an allele as a record spells it, which scores depend on.
type Spelled struct {
	Contig   *genome.Contig
	Pos      int // 1-based
	Ref, Alt string
}

// Scorer scores alleles with sequence networks. It is safe for concurrent use.
type Scorer interface {
	// Score returns the scores of each allele; none of those that no network has a say about.
	Score(alleles []Spelled) ([][]Score, error)
	// Describe lists the networks.
	Describe() []ScoreField
}

// ScoreField is how the scores of a network stand in INFO of a VCF.
type ScoreField struct {
	Network, Version, SHA256, Licence string
	Key, Description                  string
	// Splice says that a value is SpliceAI's: ALLELE|SYMBOL, four scores and four positions.
	Splice bool
}

// WithScorer is a copy of a whose rows have scores.
func (a *Annotator) WithScorer(s Scorer) *Annotator {
	b := *a
	b.scorer = s
	return &b
}

// ScoreInfo writes scores to INFO.
type ScoreInfo struct{ fields []ScoreField }

// NewScoreInfo is a ScoreInfo for networks.
func NewScoreInfo(fields []ScoreField) *ScoreInfo { return &ScoreInfo{fields} }

// ScoreInfoOf is a ScoreInfo for the networks that scores name, in the order in which they come up: their key is the
// network's name.
func ScoreInfoOf(scores func(yield func(*Score) bool)) *ScoreInfo {
	w := &ScoreInfo{}
	for s := range scores {
		at := slices.IndexFunc(w.fields, func(f ScoreField) bool { return f.Network == s.Network })
		if at < 0 {
			at = len(w.fields)
			w.fields = append(w.fields, ScoreField{Network: s.Network, Version: s.Version, SHA256: s.SHA256, Licence: s.Licence, Key: infoKey(s.Network)})
		}
		if f := &w.fields[at]; len(s.Changes) > 0 && f.Description == "" {
			f.describe(s)
		}
	}
	for i := range w.fields {
		f := &w.fields[i]
		f.Description = cmp.Or(f.Description, "Scores of "+f.Network+": none of these alleles could be scored. Format: ALLELE|SYMBOL")
	}
	return w
}

// describe describes a field by one of its scores.
func (f *ScoreField) describe(s *Score) {
	f.Splice = s.Changes[0].Position != nil
	names := make([]string, len(s.Changes))
	for i, c := range s.Changes {
		names[i] = c.Name
	}
	f.Description = "Changes by " + strings.TrimSpace(f.Network+" "+f.Version) + ". Format: ALLELE|" + strings.Join(names, "|")
	if f.Splice {
		f.Description = "Delta scores (DS) and delta positions (DP) for acceptor gain (AG), acceptor loss (AL), donor gain (DG) and donor loss (DL) by " +
			strings.TrimSpace(f.Network+" "+f.Version) + ". Format: ALLELE|SYMBOL|DS_AG|DS_AL|DS_DG|DS_DL|DP_AG|DP_AL|DP_DG|DP_DL"
	}
}

// infoKey makes a key of INFO of a name.
func infoKey(name string) string {
	key := strings.Map(func(r rune) rune {
		if r == '-' || r == '+' {
			return '_'
		}
		return r
	}, name)
	if key != "" && '0' <= key[0] && key[0] <= '9' {
		key = "_" + key
	}
	return key
}

// keys are the keys of INFO.
func (w *ScoreInfo) keys() []string {
	keys := make([]string, len(w.fields))
	for i := range w.fields {
		keys[i] = w.fields[i].Key
	}
	return keys
}

// Declare adds the fields to a header, and which networks they are of.
func (w *ScoreInfo) Declare(h *vcf.Header) {
	for _, f := range w.fields {
		licence := ""
		if f.Licence != "" {
			licence = ",Licence=" + strconv.Quote(f.Licence)
		}
		h.AddMeta("##sequenceNetwork=<ID=" + f.Network + ",Version=" + strconv.Quote(f.Version) + ",SHA256=" + f.SHA256 + licence + ">")
		h.AddInfo(f.Key, ".", "String", f.Description)
	}
}

// Set sets the fields of a record, where scores(i) are those of its alternate allele i.
func (w *ScoreInfo) Set(rec *vcf.Record, scores func(i int) []Score) {
	for i := range w.fields {
		var value []byte
		for k, alt := range rec.Alt {
			value = w.fields[i].append(value, alt, scores(k))
		}
		if value != nil {
			rec.Info.Set(w.fields[i].Key, string(value))
		}
	}
}

// append appends a network's scores of an allele to those of others.
func (f *ScoreField) append(b []byte, alt string, scores []Score) []byte {
	for i := range scores {
		s := &scores[i]
		if s.Network != f.Network {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, alt...)
		if f.Splice || s.Gene != "" {
			b = append(append(b, '|'), scoreText.Escape(cmp.Or(s.Gene, "."))...)
		}
		b = f.appendChanges(b, s)
	}
	return b
}

// scoreText escapes what separates values.
var scoreText = vcf.NewEscaper("%;=,| ")

func (f *ScoreField) appendChanges(b []byte, s *Score) []byte {
	if len(s.Changes) == 0 {
		columns := strings.Count(f.Description[strings.LastIndex(f.Description, "Format: ")+1:], "|")
		if f.Splice {
			columns = 8
		}
		return append(b, bytes.Repeat([]byte("|."), columns)...)
	}
	decimals := -1
	if f.Splice {
		decimals = 2
	}
	for _, c := range s.Changes {
		b = strconv.AppendFloat(append(b, '|'), float64(c.Score), 'f', decimals, 64)
	}
	for _, c := range s.Changes {
		if f.Splice && c.Position != nil {
			b = strconv.AppendInt(append(b, '|'), int64(*c.Position), 10)
		}
	}
	return b
}

// aheadScores are scores of the data lines that are annotated next.
type aheadScores struct {
	rows []vcf.Row   // those that were scored
	of   [][][]Score // by row and alternate allele
	next int         // the row that is probably asked for next
	row  [][]Score   // of the row that is annotated
	asks []Spelled
}

// scoreAhead has all alternate alleles of data lines scored at once.
func (r *Rows) scoreAhead(rows []vcf.Row) error {
	s := &r.ahead
	s.rows, s.next, s.asks = rows, 0, s.asks[:0]
	s.of = slices.Grow(s.of[:0], len(rows))[:len(rows)]
	for i := range rows {
		s.asks = r.appendSpelled(s.asks, &rows[i])
	}
	scores, err := r.a.scorer.Score(s.asks)
	if err != nil {
		return err
	}
	for i := range rows {
		n := alleles(&rows[i])
		s.of[i], scores = scores[:n:n], scores[n:]
	}
	return nil
}

// alleles is the number of alternate alleles of a data line; "." counts as one here.
func alleles(row *vcf.Row) int { return bytes.Count(row.Alt, []byte{','}) + 1 }

// appendSpelled appends the alternate alleles of a data line, which may be one that isn't valid.
func (r *Rows) appendSpelled(dst []Spelled, row *vcf.Row) []Spelled {
	var c *genome.Contig
	if at := r.w.at; at != nil && at.contig.Name == string(row.Chrom) {
		c = at.contig
	} else if at := r.a.place(string(row.Chrom)); at != nil {
		c = at.contig
	}
	ref := string(row.Ref)
	for alt := range bytes.SplitSeq(row.Alt, []byte{','}) {
		dst = append(dst, Spelled{Contig: c, Pos: row.Pos, Ref: ref, Alt: string(alt)})
	}
	return dst
}

// scoresOf sets the scores of the row that is annotated.
func (r *Rows) scoresOf(row *vcf.Row) error {
	s := &r.ahead
	for k := range s.rows {
		i := (s.next + k) % len(s.rows)
		if &s.rows[i] == row {
			s.row, s.next = s.of[i], i+1
			return nil
		}
	}
	var err error
	s.row, err = r.a.scorer.Score(r.appendSpelled(s.asks[:0], row))
	return err
}

// appendScores appends the scores to INFO, which is not empty if filled, and reports whether it is not empty
// afterwards.
func (r *Rows) appendScores(dst []byte, filled bool) ([]byte, bool) {
	for i := range r.scores.fields {
		f := &r.scores.fields[i]
		var value []byte
		for k := range r.evaluated {
			value = f.append(value, r.evaluated[k].alt, r.ahead.row[k])
		}
		if value == nil {
			continue
		}
		if filled {
			dst = append(dst, ';')
		}
		dst = append(append(append(dst, f.Key...), '='), value...)
		filled = true
	}
	return dst, filled
}
