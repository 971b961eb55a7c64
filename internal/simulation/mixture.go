package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/vcf"
)

// mixed is a row of a table of samples.
type mixed struct {
	name, barcode, reference, vcf string
	share                         float64
	ploidy                        int // 0: by the VCF
}

// maxMixed bounds the samples on a flow cell.
const maxMixed = 1000

var sampleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// openMixture reads a table of samples. Paths in it are relative to its folder.
func (s *Sequencer) openMixture() ([]mixed, error) {
	f, err := os.Open(s.mixture)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := readMixture(f, mixed{reference: s.plant.Reference, ploidy: s.plant.Ploidy})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.mixture, err)
	}
	for i := range rows {
		for _, path := range []*string{&rows[i].reference, &rows[i].vcf} {
			if *path != "" && *path != s.plant.Reference && !filepath.IsAbs(*path) {
				*path = filepath.Join(filepath.Dir(s.mixture), *path)
			}
		}
	}
	return rows, nil
}

// readMixture reads a table with the columns sample and share, and if there are such
// barcode, ref, vcf and ploidy; what is not given is as in usual.
func readMixture(r io.Reader, usual mixed) ([]mixed, error) {
	lines := bufio.NewScanner(r)
	var columns []string
	var rows []mixed
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimRight(lines.Text(), "\r")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, "\t")
		if columns == nil {
			columns = fields
			for i, c := range columns {
				if !slices.Contains([]string{"sample", "share", "barcode", "ref", "vcf", "ploidy"}, c) || slices.Contains(columns[:i], c) {
					return nil, fmt.Errorf("line %d: column %q: want sample, share, barcode, ref, vcf and ploidy, each once, separated by tabs", n, c)
				}
			}
			if !slices.Contains(columns, "sample") || !slices.Contains(columns, "share") {
				return nil, fmt.Errorf("line %d: the columns sample and share are needed", n)
			}
			continue
		}
		if len(fields) != len(columns) {
			return nil, fmt.Errorf("line %d: %d fields under %d columns", n, len(fields), len(columns))
		}
		row, err := mixedOf(columns, fields, usual)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.ContainsFunc(rows, func(o mixed) bool { return o.name == row.name }) {
			return nil, fmt.Errorf("line %d: a second sample %s", n, row.name)
		}
		if rows = append(rows, row); len(rows) > maxMixed {
			return nil, fmt.Errorf("line %d: more than %d samples", n, maxMixed)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("it lists no sample")
	}
	return rows, nil
}

func mixedOf(columns, fields []string, row mixed) (mixed, error) {
	for i, value := range fields {
		var err error
		switch columns[i] {
		case "sample":
			if row.name = value; !sampleName.MatchString(value) {
				return row, fmt.Errorf("sample %q: want up to 64 letters, digits, dots, dashes and underscores", value)
			}
		case "share":
			if row.share, err = strconv.ParseFloat(value, 64); err != nil || !(row.share > 0 && row.share <= 1e6) {
				return row, fmt.Errorf("share %q is no number above 0", value)
			}
		case "barcode":
			row.barcode = value
		case "ref":
			if value != "" {
				row.reference = value
			}
		case "vcf":
			row.vcf = value
		case "ploidy":
			if value == "" {
				continue
			}
			if row.ploidy, err = strconv.Atoi(value); err != nil || row.ploidy < 1 || row.ploidy > 2 {
				return row, fmt.Errorf("ploidy %q: want 1 or 2", value)
			}
		}
	}
	return row, nil
}

// ploidyOf returns the number of alleles of a VCF's first genotype; 1 without one.
func ploidyOf(path string) (int, error) {
	ploidy := 1
	_, err := SitesOf(path, func(r *vcf.Reader) ([]simulate.Site, error) {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && (len(rec.Samples) == 0 || len(rec.Format) == 0 || rec.Format[0] != "GT") {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		genotype, err := vcf.ParseGenotype(rec.Samples[0][0], len(rec.Alt))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", rec.Line(), err)
		}
		ploidy = len(genotype)
		return nil, nil
	})
	if err == nil && ploidy > 2 {
		err = fmt.Errorf("%s: genotypes of %d haplotypes: want 1 or 2, or allele fractions and --fractions", path, ploidy)
	}
	return ploidy, err
}

// fractionsOf reads a VCF of allele fractions: of n haplotypes, each of its first
// alternate alleles is on the share that AF in INFO says, 1 if it is not there, rounded
// to whole haplotypes and at least one. Which ones is drawn for each site.
func fractionsOf(g *genome.Genome, n int, seed uint64) func(*vcf.Reader) ([]simulate.Site, error) {
	return func(r *vcf.Reader) ([]simulate.Site, error) {
		return simulate.FromVCFWith(r, g, n, func(rec *vcf.Record) ([]uint8, error) {
			fraction := 1.0
			if text, ok := rec.Info.Get("AF"); ok {
				var err error
				first, _, _ := strings.Cut(text, ",")
				if fraction, err = strconv.ParseFloat(first, 64); err != nil || !(fraction > 0 && fraction <= 1) {
					return nil, fmt.Errorf("AF=%s is no fraction above 0", text)
				}
			}
			have := min(max(int(math.Round(fraction*float64(n))), 1), n)
			alleles := make([]uint8, n)
			// Which haplotypes: by the site alone, so that sites don't depend on each other.
			rnd := rand.New(rand.NewPCG(seed, uint64(rec.Pos)*0x9e3779b97f4a7c15+uint64(len(rec.Ref))))
			for _, h := range rnd.Perm(n)[:have] {
				alleles[h] = 1
			}
			return alleles, nil
		})
	}
}

// fractionRecord is a site of a mixture of haplotypes as a VCF record: with the fraction
// of each alternate allele in place of a genotype.
func fractionRecord(s *simulate.Site) *vcf.Record {
	rec := s.Record()
	rec.Format, rec.Samples = nil, nil
	have := make([]int, len(s.Alts)+1)
	for _, a := range s.Genotype {
		have[a]++
	}
	var fractions []string
	for _, n := range have[1:] {
		fractions = append(fractions, vcf.FormatFloat(float64(n)/float64(len(s.Genotype))))
	}
	rec.Info.Set("AF", strings.Join(fractions, ","))
	return rec
}
