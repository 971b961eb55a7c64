package main

import (
	"context"
	"log/slog"

	"github.com/porestream/porestream/annotate/haplotype"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// stage is one of the services' stages, as the harness knows them.
type stage struct{ name, input, output string }

var stages = []stage{{"basecall", "signal", "reads"}, {"variant", "reads", "calls"}, {"annotate", "calls", "variants"}}

// group is the stage's consumer group.
func (s stage) group() string { return "porestream-" + s.name }

// folding are the makers of the stages whose output is a function of the sequence of records, by input topic. Variants are scored by the
// default model, as in services without other settings. stop closes that model's network, after the last handler.
func folding(ctx context.Context, cfg *config, g *genome.Genome, partitions map[string]int32, logger *slog.Logger) (_ map[string]stream.NewHandler, stop func() error, err error) {
	genes := processor.Genes{Paths: []string{cfg.genes}}
	annotator, err := genes.Annotator(ctx, g, logger)
	if err != nil {
		return nil, nil, err
	}
	haplotypes, err := haplotype.NewGenes(g, annotator.Model(), genes.Reader.Codes.AllStarts)
	if err != nil {
		return nil, nil, err
	}
	caller, scorer, err := new(processor.Calling).Load(g, variant.Config{}, network.Config{Library: cfg.ort, Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	topics := stream.NewTopics("")
	return map[string]stream.NewHandler{
		topics.Reads: variantstage.New(variantstage.Config{Topics: topics, CallsPartitions: partitions[topics.Calls], Genome: g, Variant: caller}),
		topics.Calls: annotatestage.New(annotatestage.Config{
			Topics: topics, VariantsPartitions: partitions[topics.Variants],
			Annotator: annotator, Haplotypes: annotatestage.GeneHaplotypes{Genes: haplotypes},
		}),
	}, scorer.Close, nil
}
