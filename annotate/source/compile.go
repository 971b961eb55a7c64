package source

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/wholefile"
)

// Config says how to compile a source. Genome, Name and Version are required.
type Config struct {
	Genome        *genome.Genome
	Name, Version string
	Date          string // YYYY-MM-DD; empty: the VCF header's, if it has one
	// Kind is vcf, bed or tsv; empty: by the input's beginning and name, and tsv if there are Columns.
	Kind string
	// Fields choose and name the values that are kept: of a VCF the keys of INFO, and FILTER; of a BED or TSV
	// NAME[=COLUMN][:TYPE], where COLUMN is a name in the header line or a number from 1. Empty: everything that a VCF
	// declares; score and strand of a BED; all columns of a TSV that are not in Columns, as text.
	Fields []string
	// Columns name the columns of a TSV: chrom, pos (1-based) or start (0-based), end, ref, alt, id.
	Columns map[string]string
	// Matches are the kinds of match that the store gives. Empty: exact where entries have alleles, overlap otherwise.
	Matches []annotate.Match
	// Memory bounds the records sorted in memory, in bytes; 0 means 256 MiB. The rest goes to temporary files.
	Memory int
	// Progress is called with the bytes read so far, if it is not nil.
	Progress func(int64)
	Logger   *slog.Logger // nil: none
}

const defaultMemory = 256 << 20

// mismatchLimit is the share of records with another reference base, in percent, from which the reference must be
// another than the source's.
const mismatchLimit = 10

// The reasons for which records are skipped.
const (
	skipContig     = "contig is not in the reference"
	skipReference  = "reference base is another"
	skipNoAllele   = "no alternate allele"
	skipBreakend   = "breakend"
	skipSymbolic   = "symbolic allele without an end"
	skipOutside    = "outside the contig"
	skipNoSequence = "alternate allele is not a sequence"
	skipTooLong    = "allele of more than 65536 bases"
	skipMatch      = "interval, but intervals are not matched"
)

// maxAllele bounds the alleles that are kept as sequences.
const maxAllele = 1 << 16

// Compile makes the file at path out of the file input ("-" is standard input) and puts it in place in one step, so
// that a process that has an older one open keeps that. The same input and settings give the same bytes.
func Compile(ctx context.Context, cfg Config, input, path string) (*Meta, error) {
	in, name := os.Stdin, "standard input"
	if input != "-" {
		f, err := os.Open(input)
		if err != nil {
			return nil, fmt.Errorf("reading source: %w", err)
		}
		defer f.Close()
		in, name = f, filepath.Base(input)
	}
	if err := textfile.CheckEnd(in); err != nil {
		return nil, fmt.Errorf("compiling %s: %w", input, err)
	}
	f, err := wholefile.Create(path)
	if err != nil {
		return nil, err
	}
	meta, err := compile(ctx, cfg, in, name, f.File)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compiling %s: %w", input, err), f.Discard())
	}
	return meta, f.Commit()
}

// input is what the parsers read: text, and its beginning.
type input struct {
	br   *bufio.Reader
	name string
}

// compile writes a store of in to out.
func compile(ctx context.Context, cfg Config, in io.Reader, name string, out *os.File) (*Meta, error) {
	if cfg.Memory <= 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	sum := sha256.New()
	raw := &meter{ctx: ctx, r: io.TeeReader(in, sum), progress: cfg.Progress}
	text, err := textfile.NewReader(raw, 256<<10)
	if err != nil {
		return nil, err
	}
	c := &compiler{
		cfg: cfg, names: newNames(cfg.Genome),
		sort:    sorter{dir: filepath.Dir(out.Name()), memory: cfg.Memory},
		alleles: make([]int, len(cfg.Genome.Contigs)), intervals: make([]int, len(cfg.Genome.Contigs)),
		meta: Meta{
			Name: cfg.Name, Version: cfg.Version, Date: cfg.Date, Input: name, Matches: cfg.Matches,
			Reference: ReferenceDigest(cfg.Genome),
			Counts:    Counts{Skipped: map[string]int{}, Dropped: map[string]int{}},
		},
	}
	defer c.sort.close()
	if err := c.read(&input{br: text.Reader, name: name}); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, raw); err != nil { // what follows the compressed text belongs to the digest
		return nil, err
	}
	c.meta.InputSHA256 = hex.EncodeToString(sum.Sum(nil))
	if err := c.plausible(); err != nil {
		return nil, err
	}
	l := layout{w: &writer{w: bufio.NewWriterSize(out, 1<<20)}, meta: &c.meta, g: cfg.Genome, alleles: c.alleles, intervals: c.intervals}
	if err := l.write(&c.sort, c.dict, filepath.Dir(out.Name())); err != nil {
		return nil, fmt.Errorf("writing the store: %w", err)
	}
	return &c.meta, nil
}

// meter counts the bytes read, and ends when the context does.
type meter struct {
	ctx      context.Context //nolint:containedctx // io.Reader has no other way to be stopped
	r        io.Reader
	n        int64
	progress func(int64)
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	if m.n += int64(n); m.progress != nil {
		m.progress(m.n)
	}
	return n, err
}

// compiler collects entries.
type compiler struct {
	cfg   Config
	names *names
	meta  Meta
	dict  *dictionary
	sort  sorter

	alleles, intervals []int // of each contig
	record             []byte
	values             []byte // of the entry being added
	warned             map[string]int
	mismatches         int
	checked            int // alleles whose reference bases were compared
}

// read parses the input by its kind.
func (c *compiler) read(in *input) error {
	kind := c.cfg.Kind
	if kind == "" {
		kind = kindOf(in)
	}
	if kind == "" && len(c.cfg.Columns) > 0 {
		kind = "tsv"
	}
	c.meta.Kind = kind
	switch kind {
	case "vcf":
		return c.readVCF(in)
	case "bed":
		return c.readBED(in)
	case "tsv":
		return c.readTSV(in)
	case "":
		return errors.New("neither VCF (##fileformat=VCF) nor named .bed, and no columns are named: say what it is with --kind, and for tsv --columns")
	}
	return fmt.Errorf("kind %q: want vcf, bed or tsv", kind)
}

// kindOf recognises an input; "" if it can't.
func kindOf(in *input) string {
	if head, _ := in.br.Peek(16); strings.HasPrefix(string(head), "##fileformat=VCF") {
		return "vcf"
	}
	name := strings.TrimSuffix(strings.TrimSuffix(in.name, ".gz"), ".bgz")
	if strings.HasSuffix(name, ".bed") {
		return "bed"
	}
	return ""
}

// begin fixes the fields; entries can be added then.
func (c *compiler) begin(fields []annotate.SourceField, matches ...annotate.Match) error {
	c.meta.Fields = fields
	if len(c.meta.Matches) == 0 {
		c.meta.Matches = matches
	}
	if err := c.meta.validate(); err != nil {
		return err
	}
	c.dict = newDictionary(len(fields))
	c.warned = map[string]int{}
	return nil
}

// maxWarnings is how often the same is logged.
const maxWarnings = 5

// skip counts records left out of the store, and logs the first of a kind.
func (c *compiler) skip(line int, reason, detail string) {
	c.meta.Counts.Skipped[reason]++
	c.warn(line, reason, detail)
}

func (c *compiler) warn(line int, reason, detail string) {
	if c.warned[reason]++; c.warned[reason] <= maxWarnings {
		c.cfg.Logger.Warn("left out of the store", "line", line, "reason", reason, "what", detail)
	}
}

// drop counts a value that is left out.
func (c *compiler) drop(line int, field, detail string) {
	c.meta.Counts.Dropped[field]++
	c.warn(line, "values of "+field, detail)
}

// contig is the number of a contig of the input, or -1.
func (c *compiler) contig(line int, name string) int {
	i := c.names.find(name)
	if i < 0 {
		c.skip(line, skipContig, name)
	}
	return i
}

// addAllele adds a change of the contig with that number, spelled in any way, with c.values.
func (c *compiler) addAllele(line, contig, pos0 int, ref, alt, id string) error {
	seq := c.cfg.Genome.Contigs[contig].Seq
	ref, alt = strings.ToUpper(ref), strings.ToUpper(alt)
	detail := func() string { return fmt.Sprintf("%d %.20s>%.20s", pos0+1, ref, alt) }
	switch {
	case len(ref) > maxAllele || len(alt) > maxAllele:
		c.skip(line, skipTooLong, detail())
		return nil
	case !isSequence(alt):
		c.skip(line, skipNoSequence, detail())
		return nil
	case pos0 < 0 || pos0 > len(seq)-len(ref):
		c.skip(line, skipOutside, detail())
		return nil
	}
	c.checked++
	if string(seq[pos0:pos0+len(ref)]) != ref {
		c.mismatches++
		c.skip(line, skipReference, detail())
		return nil
	}
	if ref == alt {
		c.skip(line, skipNoAllele, detail())
		return nil
	}
	e := vrs.Edit{Start: pos0, Ref: ref, Alt: alt}.Left(seq)
	cd := code(e)
	c.record = c.record[:0]
	if id != "" {
		c.record = appendText(c.record, fieldID, id)
	}
	head := len(c.record)
	spelled := fmt.Sprintf("%d:%s", len(e.Ref), e.Alt)
	if c.has(annotate.MatchExact) || c.has(annotate.MatchPosition) {
		if isLong(cd) {
			c.record = appendText(c.record, fieldAllele, spelled)
		}
		c.record = append(c.record, c.values...)
		if err := c.sort.add(item{contig: int32(contig), start: uint32(e.Start), second: cd, record: c.record}); err != nil {
			return err
		}
		c.alleles[contig]++
		c.meta.Counts.Alleles++
	}
	if !c.has(annotate.MatchOverlap) {
		return nil
	}
	c.record = append(appendText(c.record[:head], fieldAllele, spelled), c.values...)
	return c.addSpan(contig, e.Start, e.End())
}

// addInterval adds an interval with c.values; symbolic is the symbolic allele, if it has one.
func (c *compiler) addInterval(line, contig, start, end int, symbolic, id string) error {
	if start < 0 || start > end || end > len(c.cfg.Genome.Contigs[contig].Seq) {
		c.skip(line, skipOutside, fmt.Sprintf("%d-%d", start+1, end))
		return nil
	}
	if !c.has(annotate.MatchOverlap) && (symbolic == "" || !c.has(annotate.MatchExact)) {
		c.skip(line, skipMatch, fmt.Sprintf("%d-%d", start+1, end))
		return nil
	}
	c.record = c.record[:0]
	if id != "" {
		c.record = appendText(c.record, fieldID, id)
	}
	if symbolic != "" {
		c.record = appendText(c.record, fieldAllele, symbolic)
	}
	c.record = append(c.record, c.values...)
	return c.addSpan(contig, start, end)
}

func (c *compiler) addSpan(contig, start, end int) error {
	if err := c.sort.add(item{span: true, contig: int32(contig), start: uint32(start), second: uint32(end), record: c.record}); err != nil {
		return err
	}
	c.intervals[contig]++
	c.meta.Counts.Spans++
	return nil
}

func (c *compiler) has(m annotate.Match) bool { return slices.Contains(c.meta.Matches, m) }

// plausible refuses a source that was made for another reference.
func (c *compiler) plausible() error {
	n := &c.meta.Counts
	switch {
	case n.Records == 0:
		return errors.New("no records")
	case n.Skipped[skipContig] == n.Records:
		return fmt.Errorf("none of its contigs (%s) is in the reference (%s): give their other names with --contig-synonyms",
			strings.Join(c.names.unknown(3), ", "), strings.Join(first(c.cfg.Genome.Names(), 3), ", "))
	case c.mismatches*100 > c.checked*mismatchLimit:
		return fmt.Errorf("%d of %d alleles have another reference base than the reference: it was made for another one", c.mismatches, c.checked)
	case n.Alleles+n.Spans == 0:
		return errors.New("no record can be used")
	}
	return nil
}

// isSequence reports whether s is made of IUPAC nucleotide letters, or empty.
func isSequence(s string) bool { return strings.Trim(s, "ACGTUNRYSWKMBDHV") == "" }

// first are the first n of list, and a mark if there are more.
func first(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(slices.Clone(list[:n]), "…")
}
