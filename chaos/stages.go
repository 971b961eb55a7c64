package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/porestream/porestream/annotate/haplotype"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/processor"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// stage is one of the services' stages, as the harness knows them.
type stage struct{ name, input, output string }

// steady are the stages of a soak, stages those of a chaos run.
var (
	steady = []stage{{basecallstage.Name, "signal", "reads"}, {variantstage.Name, "reads", "calls"}, {annotatestage.Name, "calls", "variants"}}
	stages = append(slices.Clone(steady), stage{methylatestage.Name, "reads", "methylation"})
)

// group is the stage's consumer group.
func (s stage) group() string { return "porestream-" + s.name }

// folding are the stages whose output is a function of the sequence of records. Variants are scored by the
// default model, as in services without other settings. stop closes that model's network, after the last handler.
func folding(ctx context.Context, cfg *config, g *genome.Genome, partitions map[string]int32, logger *slog.Logger) (_ []check.Stage, stop func() error, err error) {
	genes := processor.Genes{Paths: []string{cfg.genes}}
	annotator, err := genes.Annotator(ctx, g, logger)
	if err != nil {
		return nil, nil, err
	}
	haplotypes, err := haplotype.NewGenes(g, annotator.Model(), genes.Reader.Codes.AllStarts)
	if err != nil {
		return nil, nil, err
	}
	var calling processor.Calling
	if cfg.diploid {
		calling.Ploidy = variant.Diploid.String()
	}
	caller, scorer, err := calling.Load(g, variant.Config{}, network.Config{Library: cfg.ort, Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	topics := stream.NewTopics("")
	return []check.Stage{
		{Name: variantstage.Name, Input: topics.Reads, New: variantstage.New(variantstage.Config{
			Topics: topics, CallsPartitions: partitions[topics.Calls], Genome: g, Variant: caller, Haplotypes: cfg.diploid,
		})},
		{Name: methylatestage.Name, Input: topics.Reads, New: methylatestage.New(methylatestage.Config{
			Topics: topics, MethylationPartitions: partitions[topics.Methylation], Genome: g, Haplotypes: cfg.diploid,
			Filter: methylatestage.Filter{Percentile: processor.DefaultMethylationPercentile},
		})},
		{Name: annotatestage.Name, Input: topics.Calls, New: annotatestage.New(annotatestage.Config{
			Topics: topics, VariantsPartitions: partitions[topics.Variants],
			Annotator: annotator, Haplotypes: annotatestage.GeneHaplotypes{Genes: haplotypes},
		})},
	}, scorer.Close, nil
}
