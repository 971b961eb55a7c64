package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align/hts/samtag"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/aligned"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/variant"
)

// modifiedMotifs are the letters of the motifs that the reads of a file, of one sample of it or of all, say to be
// modified, as pore pileup --no-filtering --find-motifs does.
func modifiedMotifs(ctx context.Context, path, sample string, g *genome.Genome, threads int, logger *slog.Logger) (letters []string, err error) {
	opts := aligned.Options{Threads: threads, Genome: g}
	in, name, err := openPileup(path, nil, &pileupConfig{}, &opts)
	if err != nil {
		return nil, fmt.Errorf("--find-modified-motifs: %w", err)
	}
	defer func() { err = errors.Join(err, in.close()) }()
	finder := motif.NewFinder(motif.Config{})
	counts, err := aligned.Pileup(ctx, readsOf(in.records, sample), opts, func(contig string, row *pileup.Row) error {
		if c := g.Contig(contig); c != nil {
			finder.Add(c.Seq, row)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("--find-modified-motifs: %s: %w", name, err)
	}
	if counts.Tagged == 0 {
		logger.Warn("--find-modified-motifs: no read says anything of modified bases, so none of their motifs is known", "reads", counts.Reads)
	}
	found, err := finder.Find(ctx)
	logger.Info("motifs that are modified were searched for", "found", strings.Join(motif.ByEvidence(found), " "), "reads with calls", counts.Tagged)
	return knownMotifs(found, logger), err
}

// knownMotifs are the letters of those of the found motifs, sorted, that calling can take: with bases enough to distinguish errors from chance, and of these not more than it
// takes, those with the most evidence.
func knownMotifs(found []motif.Motif, logger *slog.Logger) []string {
	letters, loose := variant.SpecificMotifs(motif.ByEvidence(found))
	if len(loose) > 0 {
		logger.Warn("--find-modified-motifs: motifs of too few bases to distinguish errors from chance are left out", "motifs", strings.Join(loose, " "))
	}
	if n := len(letters); n > variant.MaxKnownMotifs {
		logger.Warn("--find-modified-motifs: the motifs with the most evidence are used, and the others left out", "found", n, "used", variant.MaxKnownMotifs, "left out", strings.Join(letters[variant.MaxKnownMotifs:], " "))
		letters = letters[:variant.MaxKnownMotifs]
	}
	slices.Sort(letters)
	return letters
}

// ofSample are the records of one sample.
type ofSample struct {
	aligned.Reader
	groups map[string]bool // the sample's read groups
}

// readsOf are the records of a sample by its read groups; of all, if it is empty.
func readsOf(in aligned.Reader, sample string) aligned.Reader {
	if sample == "" {
		return in
	}
	of := ofSample{in, make(map[string]bool)}
	for _, group := range in.Header().RGs() {
		if group.Get(sam.NewTag("SM")) == sample {
			of.groups[group.Name()] = true
		}
	}
	return of
}

// Read is the sample's next record.
func (r ofSample) Read() (*sam.Record, error) {
	for {
		rec, err := r.Reader.Read()
		if err != nil {
			return rec, err
		}
		if group, _ := samtag.Value(rec, "RG").(string); r.groups[group] {
			return rec, nil
		}
	}
}
