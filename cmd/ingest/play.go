package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
)

const playName = "play"

func playKind() kind {
	return kind{
		name: playName, use: "--brokers HOST:PORT SIGNAL...",
		example: "play --brokers kafka:9092 --pace 1 /data/run1",
		short:   "Put the signal of recorded runs on Kafka",
		long: "Plays POD5, BLOW5 and FAST5 files, or folders of them, as the sequencer would have delivered them, and ends every run with a marker. " +
			"Started again after a crash or an interrupt, it goes on where it stopped.",
		operands: "signal", operandsUsage: "POD5, BLOW5 and FAST5 files, or folders of them",
		waiting: "connecting and reading the recording",
		make:    func() source { return new(playing) },
	}
}

// playing is a source of recorded runs.
type playing struct {
	paceText    string
	followClock bool
	restart     bool
	filter      cli.FilterFlags

	paths  []string
	pace   float64
	chosen signal.Filter
}

func (p *playing) register(flags *pflag.FlagSet) {
	p.filter.Register(flags)
	fileFlag(flags, "reads")
	flags.StringVar(&p.paceText, "pace", "max", "speed by the recording's own clock: 1, any number, or max")
	flags.BoolVar(&p.followClock, "follow-clock", false, "play by the recording's own clock, as --pace 1 does")
	flags.BoolVar(&p.restart, "restart", false, "send runs from their beginning, whatever is in Kafka already")
}

func (p *playing) complete(given *given) error {
	p.paths = given.operands
	var err error
	if p.pace, err = ingest.ParsePace(p.paceText); err != nil {
		return cli.Usagef("--pace: %w", err)
	}
	if p.followClock {
		if given.flags.Changed("pace") && p.pace != 1 {
			return cli.Usagef("--follow-clock is --pace 1, and --pace %s is given", p.paceText)
		}
		p.pace = 1
	}
	p.chosen, err = p.filter.Filter()
	return err
}

func (p *playing) claims() ([]sources.Claim, error) { return folderClaims(p.paths...) }

func (p *playing) run(ctx context.Context, to *destination) error {
	recording, err := p.filter.Index(ctx, p.paths, to.logger)
	if err != nil {
		if ctx.Err() == nil {
			err = misconfigured{err}
		}
		return err
	}
	defer recording.Close()
	if recording.Len() == 0 {
		return misconfigured{fmt.Errorf("%s: no reads", strings.Join(p.paths, ", "))}
	}
	selection, err := recording.Select(p.chosen)
	if err != nil {
		return err
	}
	cli.LogSelection(to.logger, p.chosen, selection, recording.Len())
	service := to.service
	service.Pace, service.Filter, service.Restart = p.pace, p.chosen.String(), p.restart
	to.ready()
	totals, err := ingest.Run(ctx, recording, service)
	to.logger.Info("ingest stopped", "runs", totals.Runs, "reads", totals.Reads, "chunks", totals.Chunks, "samples", totals.Samples)
	return err
}
