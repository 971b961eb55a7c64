// Package bench measures how much of a network's speed is left to callers that
// have variants scored by it.
package bench

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall/bench"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
)

// Load is what is asked of a network.
type Load struct {
	Callers  int // that have alleles scored at the same time
	Alleles  int // that each has scored together
	Examples int // in a round, about
	Rounds   int
}

// Throughput is how fast alleles are scored.
type Throughput struct {
	Model    string `json:"model"`
	Device   string `json:"device"`
	Cores    int    `json:"cores"`    // that the process may use
	Sessions int    `json:"sessions"` // copies of the network side by side
	Batch    int    `json:"batch"`    // examples computed together at most
	Callers  int    `json:"callers"`
	Alleles  int    `json:"alleles_per_evaluation"`
	Rounds   int    `json:"rounds"`

	// Rates of the median round, per second of the clock: examples scored, and
	// examples that the bare network computes in full batches in turn with that.
	Rate     float64 `json:"examples_per_s"`
	BareRate float64 `json:"bare_examples_per_s"`
	// ScoringOverBare is the one over the other, by the clock and by processor time:
	// medians of the rounds' ratios. On a busy machine the second means more.
	ScoringOverBare    float64 `json:"judge_over_bare"`
	ScoringOverBareCPU float64 `json:"judge_over_bare_cpu_time"`
}

// Measure has made-up examples scored, in turn with as many through the bare
// network: the same model, device, batch and sessions, and nothing else.
func Measure(ctx context.Context, model *network.Model, cfg network.Config, load Load) (j Throughput, err error) {
	if load.Callers < 1 || load.Alleles < 1 || load.Examples < 1 || load.Rounds < 1 {
		return Throughput{}, errors.New("measuring scoring: there is no caller, allele, example or round")
	}
	n, err := network.New(model, cfg)
	if err != nil {
		return Throughput{}, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	bare, err := n.Copies()
	if err != nil {
		return Throughput{}, err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()

	examples := network.MadeUp(load.Alleles)
	times := (load.Examples + load.Callers*load.Alleles - 1) / (load.Callers * load.Alleles)
	total := times * load.Callers * load.Alleles
	d, err := bench.Compare(load.Rounds, func() error {
		var callers errgroup.Group
		for range load.Callers {
			callers.Go(func() error {
				answers := make([]float32, 0, load.Alleles*variant.Scores)
				for range times {
					if err := ctx.Err(); err != nil {
						return err
					}
					if _, err := n.Score(answers, examples); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return callers.Wait()
	}, func() error { return bench.RunBare(ctx, bare, total) })
	if err != nil {
		return Throughput{}, err
	}
	return Throughput{
		Model: model.Manifest.Name, Device: n.Device(), Cores: bench.Cores(), Sessions: len(bare.Runners), Batch: bare.Batch,
		Callers: load.Callers, Alleles: load.Alleles, Rounds: load.Rounds,
		Rate: float64(total) / d.Engine, BareRate: float64(total) / d.Bare,
		ScoringOverBare: d.EngineOverBare, ScoringOverBareCPU: d.EngineOverBareCPU,
	}, nil
}
