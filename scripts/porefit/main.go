// Command porefit measures what R10.4.1 pores do in real reads, and writes the profiles
// and levels that models/pores ships: docs/attach/simulator.md says how. It needs the folder of
// shared data.
//
//	go run ./scripts/porefit --data ../shared/data --out models/pores
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/porefit"
	"github.com/porestream/porestream/simulate/squiggle"
)

func main() {
	data := flag.String("data", "../shared/data", "folder of recordings with truth")
	out := flag.String("out", "models/pores", "folder for the profiles")
	keep := flag.Bool("keep", false, "keep the profile of 4 kHz that is in the folder, and begin with that of 5 kHz")
	flag.Parse()
	if err := run(*data, *out, *keep, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "porefit:", err)
		os.Exit(1)
	}
}

// centre is the base of a 9-mer that its time belongs to: with it move tables and
// alignments agree best.
const centre = 6

// parts are those of a level: each base, and triples, fours and fives of neighbours where
// the pore is narrow.
func parts() (out []squiggle.Part) {
	for _, p := range []struct{ width, first, last int }{{1, 0, 8}, {3, 0, 6}, {4, 1, 5}, {5, 2, 4}} {
		for at := p.first; at <= p.last; at++ {
			out = append(out, squiggle.Part{Offset: at, Width: p.width})
		}
	}
	return out
}

func run(data, out string, keep bool, log io.Writer) error {
	published, err := porefit.OpenTable(filepath.Join(data, "pore-models/dna_r10.4.1_400bps_9mer.npz"))
	if err != nil {
		return err
	}
	meter := porefit.NewMeter(published, centre)
	labelled, err := porefit.Labelled(filepath.Join(data, "r10/can_reads.pod5"), filepath.Join(data, "r10/can_mappings.bam"))
	if err != nil {
		return err
	}
	slow, err := meter.Known(labelled)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "4 kHz: %d bases, r %.4f, %+v\n", len(slow.Dwells), slow.Correlation(), slow.Spread())
	shipped, err := writeLevels(out, published, slow, log)
	if err != nil {
		return err
	}
	places, err := sequences(filepath.Join(data, "human-chr11-2mb"))
	if err != nil {
		return err
	}
	c := porefit.Calibration{
		Real: slow, Measure: meter.Known, Published: published, Shipped: shipped, Sequences: porefit.Pieces(labelled), Rounds: 6, ShippedRounds: 6, Log: log,
		Converter: squiggle.Converter{Offset: -265, Scale: 0.1462, Max: 2047},
	}
	p4 := slowProfile(published.K, slow)
	if keep {
		if p4, err = kept(out, p4.Name); err != nil {
			return err
		}
	} else {
		c.Begin(&p4)
		if err := fit(&c, &p4, out); err != nil {
			return err
		}
	}
	fast, err := decoded(meter, data)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "5 kHz: %d bases, %d stretches left out, r %.4f, %+v\n", len(fast.Dwells), fast.Left, fast.Correlation(), fast.Spread())
	p5 := fastProfile(p4, fast)
	if keep {
		begin, err := kept(out, p5.Name)
		if err != nil {
			return err
		}
		p5.Dwell, p5.Residual, p5.ResidualPublished, p5.Noise, p5.Change, p5.Correlation = begin.Dwell, begin.Residual, begin.ResidualPublished, begin.Noise, begin.Change, begin.Correlation
	}
	c.Decoded = true
	c.Real, c.Measure, c.Stretch, c.Sequences, c.Rounds, c.ShippedRounds, c.Converter.Scale = fast, meter.Decoded, porefit.DecodedSamples, places[:min(60, len(places))], 5, 0, 0.18707
	return fit(&c, &p5, out)
}

// writeLevels writes the levels that ship, made of the reads of 4 kHz, and returns them.
func writeLevels(out string, published *squiggle.Model, slow *porefit.Measured, log io.Writer) (*squiggle.Model, error) {
	levels, err := porefit.Levels(published.K, slow.Visits, parts())
	if err != nil {
		return nil, err
	}
	levels.Source = []string{
		fmt.Sprintf("levels of R10.4.1 9-mers at 400 bases/s, of %d bases of 14 reads of human DNA of Remora's tests (ONT Public Licence); statistics, no reads", len(slow.Dwells)),
		"units: standard deviations of the published table of ONT's kmer_models, by which reads were scaled and aligned",
	}
	shipped := levels.Model()
	fmt.Fprintf(log, "levels: r %.4f with the published table\n", porefit.Agreement(shipped, published))
	return shipped, os.WriteFile(filepath.Join(out, "r10.4.1-9mer.levels"), levels.AppendText(nil), 0o644)
}

// slowProfile is what the profile of 4 kHz has of its reads before it is fitted.
func slowProfile(k int, slow *porefit.Measured) squiggle.Profile {
	between := slow.Spread()
	return squiggle.Profile{
		Name: "r10.4.1-4khz", Chemistry: "r10.4.1", K: k, Centre: centre, SampleRate: 4000,
		CentrePA: between.Centre, CentreSpreadPA: between.CentreSpread, ScalePA: between.Scale, ScaleSpreadPA: between.ScaleSpread, ScaleWithCentre: between.Together,
		OpenPorePA: 205, OpenPoreSpreadPA: 10, SpeedSpread: between.SpeedSpread, NoiseSpread: between.NoiseSpread,
		Drift: between.Drift, DriftSeconds: 0.4,
		// The first base of the fourteen reads' move tables has 66 samples on average, at
		// 0.85.
		Still: 0.017, StillLevel: 0.85,
		Source: []string{fmt.Sprintf("%d bases of 14 reads of human DNA, PromethION FLO-PRO114M, SQK-LSK114, of Remora's tests (ONT Public Licence), aligned to their own sequence; statistics, no reads", len(slow.Dwells))},
	}
}

// fastProfile is the profile of 5 kHz before it is fitted: that of 4 kHz but for what its own reads say.
func fastProfile(p4 squiggle.Profile, fast *porefit.Measured) squiggle.Profile {
	between, p5 := fast.Spread(), p4
	p5.Name, p5.SampleRate, p5.CentrePA, p5.ScalePA, p5.SpeedSpread = "r10.4.1-5khz", 5000, between.Centre, between.Scale, between.SpeedSpread
	p5.Source = []string{
		fmt.Sprintf("%d bases of 4 reads of HG002, PromethION FLO-PRO114M, SQK-LSK114, aligned to what the published levels decode them to; statistics, no reads", len(fast.Dwells)),
		"how reads differ but for their speed, drift, the beginning of reads, the shape of times and of changes, and by how much less shipped levels leave to visits: as r10.4.1-4khz",
	}
	for _, q := range []*[]float64{&p5.Dwell, &p5.Residual, &p5.ResidualPublished, &p5.Noise, &p5.Change, &p5.Lasts, &p5.When} {
		*q = slices.Clone(*q)
	}
	for i := range p5.Dwell {
		p5.Dwell[i] *= 1.25 // samples, to begin with
	}
	return p5
}

// kept reads a profile of an earlier fit.
func kept(out, name string) (squiggle.Profile, error) {
	path := filepath.Join(out, name+".profile")
	text, err := os.ReadFile(path)
	if err != nil {
		return squiggle.Profile{}, err
	}
	p, err := squiggle.ReadProfile(bytes.NewReader(text))
	if err != nil {
		return squiggle.Profile{}, fmt.Errorf("%s: %w", path, err)
	}
	return *p, nil
}

func fit(c *porefit.Calibration, p *squiggle.Profile, out string) error {
	if err := c.Run(p); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, p.Name+".profile"), p.AppendText(nil), 0o644)
}

// decoded measures the reads of 5 kHz.
func decoded(meter *porefit.Meter, data string) (*porefit.Measured, error) {
	reads, err := porefit.Current(filepath.Join(data, "r10/hg002-5khz.pod5"))
	if err != nil {
		return nil, err
	}
	more, err := porefit.Current(filepath.Join(data, "r10/hg002-5khz-one.blow5"))
	if err != nil {
		return nil, err
	}
	maps.Copy(reads, more)
	// The others of these stretches are what the profile is held against.
	stretches, _ := porefit.Alternate(porefit.Cut(reads, porefit.DecodedSamples, porefit.DecodedStretches))
	return meter.Decoded(stretches)
}

// sequences are every second of a genome's pieces.
func sequences(dir string) ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.fa*"))
	if err != nil || len(files) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("no FASTA in %s", dir))
	}
	g, err := genome.Load(files[0])
	if err != nil {
		return nil, err
	}
	out, _ := porefit.Alternate(porefit.Places(g.Contigs[0].Seq, porefit.HumanGC))
	if len(out) < 30 {
		return nil, errors.New("too short a genome")
	}
	return out, nil
}
