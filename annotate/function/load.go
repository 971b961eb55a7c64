package function

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/textfile"
)

const (
	// maxLine bounds a line; sets with all genes of a genome have some 100 kB.
	maxLine = 4 << 20
	// maxEntries bounds what a file may hold. GO annotations of a well-studied genome are less than a million.
	maxEntries = 20_000_000
)

// format reads the data lines of one format.
type format struct {
	name string
	// line takes a line that is no comment.
	line func(f *File, columns []string) error
}

// File is what one file says. It does not change.
type File struct {
	Name    string // of the file, without folder and endings
	Format  string // GAF, GPAD 1, GPAD 2, InterPro, InterProScan, GMT or OBO
	Version string // that the file states; else "sha256:" and the first digits of its digest
	Date    string // YYYY-MM-DD; "" if it states none
	Entries int    // annotations, domains, or members of sets
	Negated int    // annotations left out because they say that the product does not have the function

	byID, bySymbol, bySynonym map[string][]*product
	ontology                  map[string]*ontologyTerm // of an OBO
	obsolete                  int
	texts                     map[string]string // each text is kept once
}

// product is a gene or a protein with its functions.
type product struct {
	functions []annotate.Function
	index     map[functionKey]int // only while the file is read
}

type functionKey struct {
	kind             annotate.FunctionKind
	db, id, relation string
	start, end       int
}

// Load reads a file of functions, plain or gzipped. What it is shows in its beginning.
func Load(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading functions: %w", err)
	}
	defer in.Close()
	name := filepath.Base(path)
	for _, ending := range []string{".gz", ".tsv", ".txt", ".gaf", ".gpad", ".gpa", ".gmt", ".obo"} {
		name = strings.TrimSuffix(name, ending)
	}
	f, err := Read(in, name)
	if err != nil {
		return nil, fmt.Errorf("reading functions %s: %w", path, err)
	}
	return f, nil
}

// Read is Load for a stream; name is the file's.
func Read(r io.Reader, name string) (*File, error) {
	sum := sha256.New()
	raw := io.TeeReader(r, sum)
	br, err := textfile.NewReader(raw, 64<<10)
	if err != nil {
		return nil, err
	}
	f := &File{
		Name: name, byID: map[string][]*product{}, bySymbol: map[string][]*product{}, bySynonym: map[string][]*product{},
		texts: map[string]string{},
	}
	p := parser{f: f}
	lines := bufio.NewScanner(br)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := p.line(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if f.Entries > maxEntries {
			return nil, fmt.Errorf("line %d: more than %d entries", n, maxEntries)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
	} else if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return nil, err
	}
	if p.format == nil {
		return nil, errors.New("no annotations")
	}
	if f.Version == "" {
		f.Version = "sha256:" + hex.EncodeToString(sum.Sum(nil)[:6])
	}
	p.finish()
	return f, nil
}

// parser reads lines.
type parser struct {
	f      *File
	format *format
	term   *ontologyTerm // of an OBO: the stanza that is open
}

func (p *parser) line(b []byte) error {
	b = bytes.TrimRight(b, "\r")
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if p.format == &obo || p.format == nil && bytes.HasPrefix(b, []byte("format-version:")) {
		p.format, p.f.Format = &obo, obo.name
		return p.oboLine(string(b))
	}
	if b[0] == '!' || b[0] == '#' {
		return p.comment(string(b[1:]))
	}
	columns := strings.Split(string(b), "\t")
	if p.format == nil {
		if p.format = recognise(columns); p.format == nil {
			return errors.New("not GAF, GPAD, InterProScan, InterPro, GMT or OBO: GAF and GPAD begin with their version, InterPro tables have protein, start, end, database and accession")
		}
		p.f.Format = p.format.name
		if p.format == &interPro && !isNumber(columns[1]) {
			return nil // the names of the columns
		}
	}
	return p.format.line(p.f, columns)
}

var (
	isoDate     = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}`)
	compactDate = regexp.MustCompile(`^[0-9]{8}$`)
	releaseName = regexp.MustCompile(`[._-]v([0-9][0-9A-Za-z]*(\.[0-9][0-9]*)*)`)
	md5Digest   = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
)

// comment takes a header line, without its mark.
func (p *parser) comment(text string) error {
	key, value, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok {
		return nil
	}
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	switch key {
	case "gaf-version":
		if !strings.HasPrefix(value, "2.") && value != "2" {
			return fmt.Errorf("GAF version %q: want 2.x", value)
		}
		return p.begin(&gaf)
	case "gpa-version", "gpad-version":
		switch {
		case strings.HasPrefix(value, "1"):
			return p.begin(&gpad1)
		case strings.HasPrefix(value, "2"):
			return p.begin(&gpad2)
		}
		return fmt.Errorf("GPAD version %q: want 1.x or 2.0", value)
	case "date-generated", "generated", "date", "submission date":
		p.f.Date = firstDate(p.f.Date, value)
	case "go-version", "version", "data-version", "release":
		if p.f.Version == "" {
			p.f.Version = value
			p.f.Date = firstDate(p.f.Date, value)
		}
	}
	return nil
}

func (p *parser) begin(f *format) error {
	if p.format != nil && p.format != f {
		return fmt.Errorf("%s within %s", f.name, p.format.name)
	}
	p.format, p.f.Format = f, f.name
	return nil
}

// firstDate is the date that is known, or that text has.
func firstDate(known, text string) string {
	if known != "" {
		return known
	}
	if d := isoDate.FindString(text); d != "" {
		return d
	}
	if compactDate.MatchString(text) {
		return text[:4] + "-" + text[4:6] + "-" + text[6:]
	}
	return ""
}

// recognise returns the format of a line without a header before it; nil if it is none.
func recognise(c []string) *format {
	switch {
	case len(c) >= 11 && md5Digest.MatchString(c[1]) && isNumber(c[6]) && isNumber(c[7]):
		return &interProScan
	case len(c) >= 5 && isNumber(c[1]) && isNumber(c[2]):
		return &interPro
	case len(c) >= 5 && strings.EqualFold(c[1], "start") && strings.EqualFold(c[2], "end"):
		return &interPro
	case len(c) >= 15 && strings.HasPrefix(c[4], "GO:"):
		return &gaf
	case len(c) >= 3:
		return &gmt
	}
	return nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// finish completes the file.
func (p *parser) finish() {
	f := p.f
	if p.term != nil {
		f.addTerm(p.term)
	}
	if m := releaseName.FindStringSubmatch(f.Name); m != nil && strings.HasPrefix(f.Version, "sha256:") {
		f.Version = m[1] // as MSigDB names its files
	}
	seen := map[*product]bool{}
	for _, index := range []map[string][]*product{f.byID, f.bySymbol, f.bySynonym} {
		for _, list := range index {
			for _, q := range list {
				if !seen[q] {
					seen[q] = true
					f.complete(q)
				}
			}
		}
	}
	f.texts = nil
}

// complete puts a product's functions in order.
func (f *File) complete(q *product) {
	q.index = nil
	for i := range q.functions {
		fn := &q.functions[i]
		fn.Source, fn.Version, fn.Date = f.Name, f.Version, f.Date
		slices.Sort(fn.Evidence)
		fn.Evidence = slices.Compact(fn.Evidence)
	}
}

// keep is s, kept once.
func (f *File) keep(s string) string {
	if t, ok := f.texts[s]; ok {
		return t
	}
	s = strings.Clone(s)
	f.texts[s] = s
	return s
}

// product is the one of that identifier, made if it is new.
func (f *File) product(id string) *product {
	if list := f.byID[id]; len(list) > 0 {
		return list[0]
	}
	q := &product{index: map[functionKey]int{}}
	f.byID[f.keep(id)] = []*product{q}
	return q
}

// call gives a product another name.
func (f *File) call(index map[string][]*product, name string, q *product) {
	if name != "" && !slices.Contains(index[name], q) {
		index[f.keep(name)] = append(index[name], q)
	}
}

// add gives a product a function; what it has already gains the evidence.
func (f *File) add(q *product, fn annotate.Function, evidence string) {
	f.Entries++
	key := functionKey{fn.Kind, f.keep(fn.DB), f.keep(fn.ID), f.keep(fn.Relation), fn.Start, fn.End}
	i, ok := q.index[key]
	if !ok {
		i = len(q.functions)
		q.index[key] = i
		fn.DB, fn.ID, fn.Relation, fn.Name = key.db, key.id, key.relation, f.keep(fn.Name)
		q.functions = append(q.functions, fn)
	}
	if evidence != "" && !slices.Contains(q.functions[i].Evidence, evidence) {
		q.functions[i].Evidence = append(q.functions[i].Evidence, f.keep(evidence))
	}
}
