package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/watchlist"
)

// Bounds of what is read.
const (
	maxSummary = 64 << 20
	maxLine    = 64 << 20
)

// results are what is in a folder.
type results struct {
	summary pipeline.Summary
	samples []*sample
}

// sample is what the files say of one sample.
type sample struct {
	name     string
	vcf      string // file name
	variants []*event.Variant
	alerts   []*watchlist.Alert
	panels   bool            // there are alerts, if only none
	control  string          // what kind of a control it is; empty: none
	depth    *coverage       // nil: there is no gVCF
	named    []diplotype.Row // of named alleles
}

// readFolder reads the folder of a run.
func readFolder(dir string) (*results, error) {
	path := filepath.Join(dir, "summary.json")
	text, err := readWhole(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no summary.json: want the folder that pore run --out has written", dir)
	}
	if err != nil {
		return nil, err
	}
	r := new(results)
	if err := json.Unmarshal(text, &r.summary); err != nil {
		return nil, fmt.Errorf("%s: is no summary of pore run: %w", path, err)
	}
	if len(r.summary.Files) == 0 && r.summary.SilentBarcodes == 0 {
		return nil, fmt.Errorf("%s: names no files of samples: the run wrote none, or another program the file", path)
	}
	for _, name := range slices.Sorted(maps.Keys(r.summary.Files)) {
		s, err := readSample(dir, name, r.summary.Files[name])
		if err != nil {
			return nil, err
		}
		if c := r.summary.CarryOver; c != nil {
			s.control = strings.ReplaceAll(string(c.Controls[name]), "_", " ")
		}
		r.samples = append(r.samples, s)
	}
	return r, nil
}

func readSample(dir, name, vcf string) (*sample, error) {
	prefix, is := strings.CutSuffix(vcf, "variants.vcf")
	if !is || vcf != filepath.Base(vcf) {
		return nil, fmt.Errorf("%s: the file %q of sample %q is none of pore run's", filepath.Join(dir, "summary.json"), vcf, name)
	}
	s := &sample{name: name, vcf: vcf}
	file := func(name string) string { return filepath.Join(dir, prefix+name) }
	var err error
	if s.variants, err = readVariants(file("variants.jsonl")); err != nil {
		return nil, err
	}
	text, err := readWhole(file("alerts.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		s.panels = true
		if err := json.Unmarshal(text, &s.alerts); err != nil {
			return nil, fmt.Errorf("%s: is no list of alerts: %w", file("alerts.json"), err)
		}
		s.alerts = slices.DeleteFunc(s.alerts, func(a *watchlist.Alert) bool { return a == nil })
	}
	if s.named, err = readDiplotypes(file("diplotypes.tsv")); err != nil {
		return nil, err
	}
	s.depth, err = readDepth(file("variants.g.vcf"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	return s, err
}

// readDiplotypes reads the table of named alleles; nothing, if the run was asked for none.
func readDiplotypes(path string) ([]diplotype.Row, error) {
	text, err := readWhole(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, rest, _ := strings.Cut(string(text), "\n")
	if head != diplotype.TableHeader {
		return nil, fmt.Errorf("%s: is no table of named alleles by this version of pore run", path)
	}
	var rows []diplotype.Row
	for line := range strings.Lines(rest) {
		row, err := diplotype.ParseRow(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(rows)+2, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func readWhole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSummary+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(text) > maxSummary {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxSummary)
	}
	return text, nil
}

func readVariants(path string) ([]*event.Variant, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	defer f.Close()
	var list []*event.Variant
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		v := new(event.Variant)
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			return nil, fmt.Errorf("%s:%d: is no variant: %w", path, n, err)
		}
		list = append(list, v)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return list, nil
}
