// Package methylation is the public contract of the methylation topic: one JSON document per revision of what
// the reads of a sample, or those of one haplotype, say of one modification in a stretch of the reference, as a CloudEvent in Kafka's binary
// mode. docs/consume/methylation.md describes it, and docs/consume/methylation.schema.json is its JSON Schema.
//
// Consumers fold by record key and keep the highest revision; the topic is compacted by that key. Unknown
// members are to be ignored: version 1 only ever gains members.
package methylation

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/stream"
)

// The CloudEvents types of documents: of all reads, and of those of a haplotype, which consumers that don't know it pass by. The topic also
// carries [event.TypeRunEnd].
const (
	Type          = "porestream.methylation.v1"
	TypeHaplotype = "porestream.methylation.haplotype.v1"
)

// SchemaVersion is the version of [Stretch] that this package writes.
const SchemaVersion = 1

// What a document may be.
const (
	Provisional = "PROVISIONAL" // reads may follow
	Final       = "FINAL"       // all runs of the sample have ended
)

// Stretch is one revision of one modification in one stretch of the reference.
type Stretch struct {
	SchemaVersion int    `json:"schema_version"`
	Run           string `json:"run"` // run of the newest read behind the revision; of a final one the last run by name
	Sample        string `json:"sample"`
	Revision      uint64 `json:"revision"`
	Status        string `json:"status"`

	Stretch event.Stretch `json:"stretch"`
	// Code is that of the modification, as in the tag MM: a letter, or a number of ChEBI.
	Code string `json:"code"`
	// Haplotype is that of the reads, 1 or 2; absent: all reads are counted. PhaseSets are those of the haplotype's reads over
	// the stretch, ascending: in one phase set haplotypes are as in the genotypes of variants.
	Haplotype int     `json:"haplotype,omitempty"`
	PhaseSets []int64 `json:"phase_sets,omitempty"`
	// Thresholds are the least probabilities of calls that count, by the base that is called; a base that isn't
	// there has none.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	// LeftOut is how many reads of the region were left out because they exceed its memory.
	LeftOut int   `json:"left_out,omitempty"`
	Sites   Sites `json:"sites"`
}

// Sites are the positions at which reads have calls, a column for each count of bedMethyl, ordered by position
// and strand.
type Sites struct {
	Pos       []int   `json:"pos"`     // 1-based
	Strands   Strands `json:"strands"` // one for each
	Modified  []int   `json:"modified"`
	Canonical []int   `json:"canonical"`
	Other     []int   `json:"other"`
	Deleted   []int   `json:"deleted"`
	Failed    []int   `json:"failed"`
	Different []int   `json:"different"`
	Uncalled  []int   `json:"uncalled"`
}

// Strands are + and -, a character for each.
type Strands []byte

// MarshalText has them be a string.
func (s Strands) MarshalText() ([]byte, error) { return s, nil }

// UnmarshalText reads them.
func (s *Strands) UnmarshalText(b []byte) error {
	*s = bytes.Clone(b)
	return nil
}

// NewSites are none, as lists rather than null.
func NewSites() Sites {
	return Sites{Pos: []int{}, Strands: Strands{}, Modified: []int{}, Canonical: []int{}, Other: []int{}, Deleted: []int{}, Failed: []int{}, Different: []int{}, Uncalled: []int{}}
}

// Reset leaves none, and keeps their memory.
func (s *Sites) Reset() {
	s.Strands = s.Strands[:0]
	for _, column := range [...]*[]int{&s.Pos, &s.Modified, &s.Canonical, &s.Other, &s.Deleted, &s.Failed, &s.Different, &s.Uncalled} {
		*column = (*column)[:0]
	}
}

// Add adds a row of a pile-up.
func (s *Sites) Add(r *pileup.Row) {
	s.Pos, s.Strands = append(s.Pos, r.Pos+1), append(s.Strands, byte(r.Strand))
	s.Modified, s.Canonical, s.Other = append(s.Modified, r.Modified), append(s.Canonical, r.Canonical), append(s.Other, r.Other)
	s.Deleted, s.Failed = append(s.Deleted, r.Deleted), append(s.Failed, r.Failed)
	s.Different, s.Uncalled = append(s.Different, r.Different), append(s.Uncalled, r.Uncalled)
}

// Row is the row of a modification that site i was made of.
func (s *Sites) Row(i int, code modbase.Code) pileup.Row {
	return pileup.Row{
		Pos: s.Pos[i] - 1, Strand: pileup.Strand(s.Strands[i]), Code: code, Motif: -1, Modified: s.Modified[i], Canonical: s.Canonical[i], Other: s.Other[i],
		Deleted: s.Deleted[i], Failed: s.Failed[i], Different: s.Different[i], Uncalled: s.Uncalled[i],
	}
}

// Key is that of the document's record.
func (s *Stretch) Key() []byte {
	return stream.MethylationKey(s.Sample, s.Stretch.Contig, s.Stretch.Pos-1, s.Code, s.Haplotype)
}

// kind is the document's CloudEvents type.
func (s *Stretch) kind() string {
	if s.Haplotype > 0 {
		return TypeHaplotype
	}
	return Type
}

// AppendJSON appends the document, without a line end: the bytes of [json.Marshal], in a tenth of its time.
func (s *Stretch) AppendJSON(b []byte) ([]byte, error) { return s.appendContent(s.appendHead(b)) }

// JSON is the document, without a line end.
func (s *Stretch) JSON() ([]byte, error) { return s.AppendJSON(nil) }

// appendHead appends what a document has before its content.
func (s *Stretch) appendHead(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"schema_version":`...), int64(s.SchemaVersion), 10)
	b = appendString(append(b, `,"run":`...), s.Run)
	b = appendString(append(b, `,"sample":`...), s.Sample)
	return strconv.AppendUint(append(b, `,"revision":`...), s.Revision, 10)
}

// appendContent appends what a document says independently of the run behind the revision and of the number of
// earlier revisions.
func (s *Stretch) appendContent(b []byte) ([]byte, error) {
	b = appendString(append(b, `,"status":`...), s.Status)
	b = appendString(append(b, `,"stretch":{"contig":`...), s.Stretch.Contig)
	b = strconv.AppendInt(append(b, `,"pos":`...), s.Stretch.Pos, 10)
	b = strconv.AppendInt(append(b, `,"end":`...), s.Stretch.End, 10)
	b = appendString(append(b, `},"code":`...), s.Code)
	if s.Haplotype != 0 {
		b = strconv.AppendInt(append(b, `,"haplotype":`...), int64(s.Haplotype), 10)
	}
	if len(s.PhaseSets) > 0 {
		b = appendInts(append(b, `,"phase_sets":`...), s.PhaseSets)
	}
	before := `,"thresholds":{`
	for _, base := range slices.Sorted(maps.Keys(s.Thresholds)) {
		b = append(appendString(append(b, before...), base), ':')
		if t := s.Thresholds[base]; t >= 1e-6 && t <= 1 {
			b = strconv.AppendFloat(b, t, 'f', -1, 64)
		} else {
			number, err := json.Marshal(t)
			if err != nil {
				return nil, fmt.Errorf("encoding the threshold of %s: %w", base, err)
			}
			b = append(b, number...)
		}
		before = ","
	}
	if len(s.Thresholds) > 0 {
		b = append(b, '}')
	}
	if s.LeftOut != 0 {
		b = strconv.AppendInt(append(b, `,"left_out":`...), int64(s.LeftOut), 10)
	}
	b = appendInts(append(b, `,"sites":{"pos":`...), s.Sites.Pos)
	b = appendString(append(b, `,"strands":`...), string(s.Sites.Strands))
	b = appendInts(append(b, `,"modified":`...), s.Sites.Modified)
	b = appendInts(append(b, `,"canonical":`...), s.Sites.Canonical)
	b = appendInts(append(b, `,"other":`...), s.Sites.Other)
	b = appendInts(append(b, `,"deleted":`...), s.Sites.Deleted)
	b = appendInts(append(b, `,"failed":`...), s.Sites.Failed)
	b = appendInts(append(b, `,"different":`...), s.Sites.Different)
	b = appendInts(append(b, `,"uncalled":`...), s.Sites.Uncalled)
	return append(b, "}}"...), nil
}

// appendInts appends a list of numbers.
func appendInts[T int | int64](b []byte, list []T) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if n >= 0 && n < 10 {
			b = append(b, '0'+byte(n))
		} else {
			b = strconv.AppendInt(b, int64(n), 10)
		}
	}
	return append(b, ']')
}

// appendString appends a text as encoding/json does.
func appendString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // a text never fails
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// Encoder makes documents records. It reuses its buffers, and is not safe for concurrent use.
type Encoder struct {
	content []byte // of a document, behind a head of
	head    int    // so many bytes
}

// Digest is a checksum of what a document says apart from its run and revision. The document must be the next one of [Encoder.Record].
func (e *Encoder) Digest(s *Stretch) ([sha256.Size]byte, error) {
	bare := Stretch{SchemaVersion: s.SchemaVersion, Sample: s.Sample}
	b := bare.appendHead(e.content[:0])
	e.head = len(b)
	var err error
	if e.content, err = s.appendContent(b); err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(e.content), nil
}

// Record returns the record that carries on topic the document that there was a digest of.
func (e *Encoder) Record(s *Stretch, topic string) stream.Out {
	content := e.content[e.head:]
	return s.record(topic, append(s.appendHead(make([]byte, 0, e.head+len(s.Run)+32+len(content))), content...))
}

// Record returns the record that carries s on topic. Sent again it is the same.
func (s *Stretch) Record(topic string) (stream.Out, error) {
	value, err := s.JSON()
	if err != nil {
		return stream.Out{}, err
	}
	return s.record(topic, value), nil
}

// record carries a document.
func (s *Stretch) record(topic string, value []byte) stream.Out {
	key := s.Key()
	headers := append(event.CloudEvent(s.kind(), s.Run, event.ID(s.kind(), s.Run, fmt.Sprintf("%s/%d", key, s.Revision))),
		stream.Header{Key: "ce_subject", Value: fmt.Appendf(nil, "%s:%d-%d", s.Stretch.Contig, s.Stretch.Pos, s.Stretch.End)},
		stream.Header{Key: "ce_partitionkey", Value: key},
	)
	return stream.Out{Topic: topic, Partition: stream.AnyPartition, Key: key, Value: value, Headers: headers}
}

// Decode reads a record of the topic: one of the results is set. Records of types that this package doesn't know
// give none.
func Decode(rec stream.Record) (*Stretch, *event.RunEnd, error) {
	kind := event.TypeOf(rec)
	if kind != Type && kind != TypeHaplotype {
		_, end, err := event.Decode(rec)
		return nil, end, err
	}
	s := new(Stretch)
	err := json.Unmarshal(rec.Value, s)
	if err == nil {
		err = s.check()
	}
	if err == nil && kind != s.kind() {
		err = fmt.Errorf("an event of type %s is of haplotype %d", kind, s.Haplotype)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decoding record %d of %s/%d: %w", rec.Offset, rec.Topic, rec.Partition, err)
	}
	return s, nil, nil
}

func (s *Stretch) check() error {
	if s.Sample == "" || s.Stretch.Contig == "" || s.Revision == 0 || s.Stretch.Pos < 1 || s.Stretch.End < s.Stretch.Pos {
		return errors.New("a stretch of modified bases needs sample, revision and stretch")
	}
	if s.Stretch.End > math.MaxInt32 { // readers make bins of what there is up to it
		return fmt.Errorf("%s:%d-%d is longer than a contig can be, which is %d", s.Stretch.Contig, s.Stretch.Pos, s.Stretch.End, math.MaxInt32)
	}
	if _, err := modbase.ParseCode(s.Code); err != nil {
		return fmt.Errorf("code %w", err)
	}
	if s.Haplotype < 0 || s.Haplotype > 2 {
		return fmt.Errorf("haplotype %d: want 1 or 2", s.Haplotype)
	}
	n := len(s.Sites.Pos)
	for _, column := range [...][]int{s.Sites.Modified, s.Sites.Canonical, s.Sites.Other, s.Sites.Deleted, s.Sites.Failed, s.Sites.Different, s.Sites.Uncalled} {
		if len(column) != n || len(s.Sites.Strands) != n {
			return fmt.Errorf("%s:%d-%d has %d positions, %d strands and a column of %d", s.Stretch.Contig, s.Stretch.Pos, s.Stretch.End, n, len(s.Sites.Strands), len(column))
		}
	}
	for i, pos := range s.Sites.Pos {
		if min(s.Sites.Modified[i], s.Sites.Canonical[i], s.Sites.Other[i]) < 0 {
			return fmt.Errorf("site %d of %s has a count below 0", pos, s.Stretch.Contig)
		}
		strand := s.Sites.Strands[i]
		if int64(pos) < s.Stretch.Pos || int64(pos) > s.Stretch.End || strand != '+' && strand != '-' {
			return fmt.Errorf("site %d on strand %q is not one of %s:%d-%d", pos, strand, s.Stretch.Contig, s.Stretch.Pos, s.Stretch.End)
		}
	}
	return nil
}

// Text is a line for people.
func (s *Stretch) Text() string {
	modified, valid := 0, 0
	for i, n := range s.Sites.Modified {
		modified += n
		valid += n + s.Sites.Canonical[i] + s.Sites.Other[i]
	}
	share := 0.0
	if valid > 0 {
		share = 100 * float64(modified) / float64(valid)
	}
	of := s.Code
	if s.Haplotype > 0 {
		of += fmt.Sprintf(" of haplotype %d", s.Haplotype)
	}
	return fmt.Sprintf("%-11s %s %s:%d-%d %s: %d positions, %.1f %% of %d calls", s.Status, s.Sample, s.Stretch.Contig, s.Stretch.Pos, s.Stretch.End, of, len(s.Sites.Pos), share, valid)
}
