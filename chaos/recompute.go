package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/porestream/porestream/annotate/haplotype"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/stream"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// stage is one of the services' stages, as the harness knows them.
type stage struct{ name, input, output string }

var stages = []stage{{"basecall", "signal", "reads"}, {"variant", "reads", "calls"}, {"annotate", "calls", "variants"}}

// group is the stage's consumer group.
func (s stage) group() string { return "porestream-" + s.name }

// folding are the makers of the stages whose output is a function of the sequence of records, by input topic.
func folding(cfg *config, g *genome.Genome, partitions map[string]int32, logger *slog.Logger) (map[string]stream.NewHandler, error) {
	genes := processor.Genes{Paths: []string{cfg.genes}}
	annotator, err := genes.Annotator(g, logger)
	if err != nil {
		return nil, err
	}
	haplotypes, err := haplotype.NewGenes(g, annotator.Model(), genes.Reader.Codes.AllStarts)
	if err != nil {
		return nil, err
	}
	topics := stream.NewTopics("")
	return map[string]stream.NewHandler{
		topics.Reads: variantstage.New(variantstage.Config{Topics: topics, CallsPartitions: partitions[topics.Calls], Genome: g}),
		topics.Calls: annotatestage.New(annotatestage.Config{
			Topics: topics, VariantsPartitions: partitions[topics.Variants],
			Annotator: annotator, Haplotypes: annotatestage.GeneHaplotypes{Genes: haplotypes},
		}),
	}, nil
}

// collector keeps what a handler emits.
type collector struct {
	outs   []stream.Out
	failed error
}

func (c *collector) Emit(_ context.Context, outs []stream.Out, _ []int64) error {
	c.outs = append(c.outs, outs...)
	return nil
}

func (c *collector) Fail(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// recompute folds the committed records of every partition in one go, and returns what must have been written.
func recompute(ctx context.Context, contents *check.Contents, partitions map[string]int32, handlers map[string]stream.NewHandler) (check.Recomputed, error) {
	recomputed := make(check.Recomputed)
	for topic, make := range handlers {
		for partition := range partitions[topic] {
			handler, err := make(topic, partition, partitions[topic])
			if err != nil {
				return nil, fmt.Errorf("recomputing from %s/%d: %w", topic, partition, err)
			}
			var c collector
			for _, rec := range contents.Records[topic] {
				if rec.Partition != partition {
					continue
				}
				if err := handler.Handle(ctx, rec, &c); err != nil {
					return nil, fmt.Errorf("recomputing from %s/%d: offset %d: %w", topic, partition, rec.Offset, err)
				}
			}
			if err := handler.Close(); err != nil {
				return nil, fmt.Errorf("recomputing from %s/%d: %w", topic, partition, err)
			}
			for _, out := range c.outs {
				recomputed[out.Topic] = append(recomputed[out.Topic], out)
			}
		}
	}
	// Dead letters are judged by themselves.
	delete(recomputed, contents.Topics.DeadLetters)
	return recomputed, nil
}
