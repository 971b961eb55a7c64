package source

import (
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// Version is the version of the file format that this package writes and reads.
const Version = 1

const (
	magic        = "\x89PSS\r\n\x1a\n" // damaged by transfers that change line ends or clear the eighth bit
	trailerMagic = "PSS-END\n"
	headerSize   = 16
	trailerSize  = 56
	// blockSize is the size of what one checksum covers.
	blockSize = 64 << 10
	// rowSize is the size of an allele's row: its key and where its record is.
	rowSize = 16
	// spanSize is the size of an interval's row: start, end, and where its record is.
	spanSize = 16
	// fanout is how many ends the next level of an interval index sums up.
	fanout = 64
	// maxMeta bounds the description within a file.
	maxMeta = 64 << 20
	// maxFields bounds the fields of a source.
	maxFields = 1024
)

// Meta describes a source. It is in the file as JSON.
type Meta struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Date        string `json:"date,omitempty"` // YYYY-MM-DD
	Input       string `json:"input"`          // name of the file that was compiled, without folder
	InputSHA256 string `json:"input_sha256"`
	// Reference is the digest of the reference that the source was compiled for: sha512t24u of the sorted digests of
	// its contigs, joined by commas.
	Reference string                 `json:"reference"`
	Kind      string                 `json:"kind"` // vcf, bed or tsv
	Matches   []annotate.Match       `json:"matches"`
	Unique    bool                   `json:"unique"` // no two entries have the same allele
	Fields    []annotate.SourceField `json:"fields"`
	Counts    Counts                 `json:"counts"`

	Contigs []contigMeta `json:"contigs"` // those that have entries, in the order of the reference
	// Dictionary holds the texts that records name by number: an array of ends, 8 bytes each, then the texts.
	Dictionary dictMeta `json:"dictionary"`
}

// Counts are the numbers of the input's records by their outcome.
type Counts struct {
	Records int `json:"records"` // data lines
	Alleles int `json:"alleles"` // changes that can be found exactly
	Spans   int `json:"spans"`   // intervals, and alleles found by what they overlap
	// Skipped counts records left out of the store, by reason.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Dropped counts values that are left out because their number does not fit the alleles, by field.
	Dropped map[string]int `json:"dropped,omitempty"`
}

// contigMeta says where a contig's tables are. Offsets count bytes from the file's start.
type contigMeta struct {
	Name   string `json:"name"`
	Length int    `json:"length"`
	Digest string `json:"digest"` // refget accession
	Rows   int    `json:"rows,omitempty"`
	RowsAt int64  `json:"rows_at,omitempty"`
	// Shift and BucketsAt are the index of rows: bucket b is the number of the first row with start>>shift >= b.
	Shift     int   `json:"shift,omitempty"`
	BucketsAt int64 `json:"buckets_at,omitempty"`
	Spans     int   `json:"spans,omitempty"`
	SpansAt   int64 `json:"spans_at,omitempty"`
	LevelsAt  int64 `json:"levels_at,omitempty"`
}

type dictMeta struct {
	Count int   `json:"count"`
	At    int64 `json:"at"`
	Size  int64 `json:"size"` // of the texts
}

// buckets is the number of entries of a bucket index.
func (c *contigMeta) buckets() int { return c.Length>>c.Shift + 2 }

var (
	sourceName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]{0,63}$`)
	fieldName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	dateForm   = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// validate checks what a user names.
func (m *Meta) validate() error {
	switch {
	case !sourceName.MatchString(m.Name):
		return fmt.Errorf("source name %q: want letters, digits, _ and ., the first no digit: it begins the names of INFO fields", m.Name)
	case m.Version == "" || strings.ContainsAny(m.Version, "\t\r\n\""):
		return fmt.Errorf("version %q: want the release of the source, such as 2026-11", m.Version)
	case m.Date != "" && !dateForm.MatchString(m.Date):
		return fmt.Errorf("date %q: want YYYY-MM-DD", m.Date)
	case len(m.Matches) == 0:
		return errors.New("no kind of match")
	case len(m.Fields) > maxFields:
		return fmt.Errorf("%d fields, at most %d: choose some", len(m.Fields), maxFields)
	}
	for _, k := range m.Matches {
		if k != annotate.MatchExact && k != annotate.MatchPosition && k != annotate.MatchOverlap {
			return fmt.Errorf("match %q: want exact, position or overlap", k)
		}
	}
	seen := map[string]bool{}
	for _, f := range m.Fields {
		switch {
		case !fieldName.MatchString(f.Name):
			return fmt.Errorf("field name %q: want letters, digits, _ . and -", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("field %q is named twice", f.Name)
		case !slices.Contains([]annotate.ValueType{annotate.Integer, annotate.Float, annotate.Flag, annotate.String}, f.Type):
			return fmt.Errorf("field %s has the type %q: want Integer, Float, Flag or String", f.Name, f.Type)
		}
		seen[f.Name] = true
	}
	return nil
}

// Describe is the source as an annotator sees it.
func (m *Meta) Describe() annotate.SourceInfo {
	return annotate.SourceInfo{Name: m.Name, Version: m.Version, Date: m.Date, Matches: m.Matches, Unique: m.Unique, Fields: m.Fields}
}

// ReferenceDigest identifies a reference by the sequences of its contigs, whatever their names and order.
func ReferenceDigest(g *genome.Genome) string {
	digests := make([]string, len(g.Contigs))
	for i, c := range g.Contigs {
		digests[i] = c.Digest()
	}
	slices.Sort(digests)
	sum := sha512.Sum512([]byte(strings.Join(digests, ",")))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
