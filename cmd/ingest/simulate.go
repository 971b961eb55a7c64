package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
)

const simulateName = "simulate"

func simulateKind() kind {
	return kind{
		name: simulateName, use: "--brokers HOST:PORT --ref FASTA [--vcf TRUTH] [--pace 1]",
		example: "simulate --brokers kafka:9092 --ref ref.fa --vcf truth.vcf --depth 30 --pace 1 --out run1",
		short:   "Put the signal of a virtual sequencer on Kafka",
		long: "Sequences a reference with planted variants as pore simulate does, live: by the sequencer's clock, or so many times as fast. " +
			"The truth is written to a folder. Started again after a crash or an interrupt with the same settings, it goes on where it stopped. docs/attach/simulator.md",
		waiting: "connecting and planning the run",
		make:    func() source { return new(simulating) },
	}
}

// simulating is a virtual sequencer as a source.
type simulating struct {
	sequencer simulation.Sequencer
	paceText  string
	lossy     float64
	restart   bool
	out       string

	pace float64
}

func (s *simulating) register(flags *pflag.FlagSet) {
	s.sequencer.Register(flags)
	flags.StringVar(&s.paceText, "pace", "max", "speed by the recording's own clock: 1, any number, or max")
	flags.Float64Var(&s.lossy, "lossy", 0, "share of the chunks that are lost on the way, but for each read's last")
	flags.BoolVar(&s.restart, "restart", false, "send runs from their beginning, whatever is in Kafka already")
	flags.StringVar(&s.out, "out", "simulated", "folder for the truth: truth.vcf and reads.tsv")
	folderFlag(flags, "out")
}

func (s *simulating) complete(*given) error {
	var err error
	if s.pace, err = ingest.ParsePace(s.paceText); err != nil {
		return cli.Usagef("--pace: %w", err)
	}
	if !(s.lossy >= 0 && s.lossy < 1) {
		return cli.Usagef("--lossy %g: want a share of 0 to less than 1", s.lossy)
	}
	return s.sequencer.Check()
}

func (s *simulating) claims() ([]sources.Claim, error) { return folderClaims(s.out) }

func (s *simulating) run(ctx context.Context, to *destination) error {
	run, err := s.sequencer.Plan(ctx, to.service.Sample)
	if err == nil {
		err = run.WriteTruth(s.out)
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, fs.ErrPermission) {
			err = misconfigured{err}
		}
		return err
	}
	if run.Spent() {
		to.logger.Warn("every pore dies before the depth is reached", "depth", run.Depth())
	}
	service := to.service
	service.Pace, service.Lossy, service.Restart = s.pace, s.lossy, s.restart
	if s.lossy > 0 {
		service.Filter = fmt.Sprintf("lossy %g", s.lossy)
	}
	to.logger.Info("run planned", "reads", run.Len(), "bases", run.Bases(), "samples", run.NumSamples(), "depth", run.Depth(), "duration", run.Duration())
	to.ready()
	totals, err := ingest.Run(ctx, run, service)
	to.logger.Info("ingest stopped", "runs", totals.Runs, "reads", totals.Reads, "chunks", totals.Chunks, "samples", totals.Samples)
	return err
}
