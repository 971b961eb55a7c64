package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/ingest/minknow"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/streampb"
)

// Environment variables that MinKNOW's own clients know, and the one of a token.
const (
	caVariable         = "MINKNOW_TRUSTED_CA"
	certVariable       = "MINKNOW_API_CLIENT_CERTIFICATE_CHAIN"
	keyVariable        = "MINKNOW_API_CLIENT_KEY"
	localTokenVariable = "MINKNOW_API_USE_LOCAL_TOKEN"
	tokenVariable      = "PORESTREAM_MINKNOW_TOKEN"
)

// caPaths are where MinKNOW keeps the certificate of its authority on Linux.
var caPaths = [...]string{"/data/rpc-certs/minknow/ca.crt", "/var/lib/minknow/data/rpc-certs/minknow/ca.crt"}

const minknowName = "minknow"

func minknowKind() kind {
	return kind{
		name: minknowName, use: "--brokers HOST:PORT --host HOST",
		example: "minknow --brokers kafka:9092 --host sequencer.lab --token-file minknow.token",
		short:   "Take signal from sequencers while they run, through MinKNOW",
		long: "Follows the flow cell positions of a MinKNOW host: takes the signal of each run while it is sequenced, until MinKNOW ends it, and waits for the next one. " +
			"Unless with --adaptive, it only listens: nothing of the sequencer is changed, and nothing waits for it. A token is read from --token-file or " + tokenVariable + ".",
		endless: true, waiting: "connecting to Kafka and MinKNOW",
		make: func() source { return new(sequencing) },
	}
}

// sequencing is a source of runs that are being sequenced.
type sequencing struct {
	minknow.Config
	runs     int
	adaptive adaptiveFlags
}

func (s *sequencing) register(flags *pflag.FlagSet) {
	c := &s.Config
	flags.StringVar(&c.Host, "host", "", "host that MinKNOW runs on")
	flags.IntVar(&c.Port, "port", 9501, "port of MinKNOW's manager")
	flags.StringVar(&c.Position, "position", minknow.AllPositions, "name of the flow cell position, or all")
	flags.StringVar(&c.CA, "minknow-ca", "", "certificate of MinKNOW's authority, PEM; if not given, "+caVariable+" or where MinKNOW keeps it on this host")
	flags.StringVar(&c.Cert, "minknow-cert", "", "client certificate for MinKNOW, PEM; if not given, "+certVariable)
	flags.StringVar(&c.Key, "minknow-key", "", "its private key, PEM; if not given, "+keyVariable)
	flags.StringVar(&c.TokenFile, "token-file", "", "file with a developer token of MinKNOW's")
	flags.StringSliceVar(&c.Classes, "classes", minknow.DefaultClasses(), "read classes that are taken")
	flags.BoolVar(&c.Filter, "filter-at-minknow", false, "let MinKNOW send reads of these classes only: less to transfer, but lost ends of reads are not seen")
	flags.BoolVar(&c.AnyPurpose, "any-purpose", false, "take runs that are not for sequencing, too")
	flags.BoolVar(&c.Once, "once", false, "end when one run of each position has ended")
	flags.IntVar(&s.runs, "max-runs", 4, "runs under way at the same time that share --max-buffered; more than these get as much")
	s.adaptive.register(flags)
	fileFlag(flags, "minknow-ca", "minknow-cert", "minknow-key", "token-file")
}

func (s *sequencing) complete(given *given) error {
	if given.flags.Changed("chunk") {
		return cli.Usagef("--chunk: MinKNOW cuts the signal, into pieces of break_reads_after_seconds")
	}
	s.Sample = given.intake.sample
	if err := completeMinKNOW(&s.Config); err != nil {
		return err
	}
	if given.name != "" {
		s.Token = "" // a file of sources names all secrets as files
	}
	if s.runs < 1 {
		return cli.Usagef("--max-runs must be positive")
	}
	return s.adaptive.complete(given.flags, &s.Config)
}

func (s *sequencing) claims() ([]sources.Claim, error) {
	at := net.JoinHostPort(strings.ToLower(s.Host), strconv.Itoa(s.Port))
	if s.Position != minknow.AllPositions {
		at += "/" + s.Position
	}
	return []sources.Claim{{What: sources.Position, Value: at}}, nil
}

// completeMinKNOW fills in what the environment says.
func completeMinKNOW(c *minknow.Config) error {
	if c.Host == "" {
		return cli.Usagef("--host is needed: the host that MinKNOW runs on")
	}
	if c.Port < 1 || c.Port > 65535 {
		return cli.Usagef("--port is %d, and goes from 1 to 65535", c.Port)
	}
	if len(c.Classes) == 0 {
		return cli.Usagef("--classes must name one")
	}
	c.CA = cmp.Or(c.CA, os.Getenv(caVariable))
	for _, path := range caPaths {
		if _, err := os.Stat(path); err == nil {
			c.CA = cmp.Or(c.CA, path)
		}
	}
	if c.CA == "" {
		return cli.Usagef("--minknow-ca or %s is needed: a copy of rpc-certs/minknow/ca.crt in the data folder of MinKNOW's host", caVariable)
	}
	c.Cert, c.Key = cmp.Or(c.Cert, os.Getenv(certVariable)), cmp.Or(c.Key, os.Getenv(keyVariable))
	if (c.Cert == "") != (c.Key == "") {
		return cli.Usagef("--minknow-cert and --minknow-key go together")
	}
	if c.TokenFile == "" {
		c.Token = os.Getenv(tokenVariable)
	}
	if value, set := os.LookupEnv(localTokenVariable); set {
		use := value != "" && value != "0" && !strings.EqualFold(value, "no")
		c.UseLocalToken = &use
	}
	return nil
}

func (s *sequencing) run(ctx context.Context, to *destination) error {
	source, kafka := s.Config, to.cluster
	lives, err := ingest.OpenLives(to.service, s.runs)
	if err != nil {
		return err
	}
	defer lives.Close(ctx)
	for _, id := range lives.Left() {
		run, err := lives.Spooled(id)
		if err == nil && run == nil {
			run, err = kafka.Announced(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("run %s, of which the spool has signal: %w", id, err)
		}
		if run != nil {
			source.Left = append(source.Left, run)
		}
	}
	source.Runs, source.Metrics = minknowRuns{lives, kafka}, to.meter.minknow
	source.Logger, source.Ready = to.logger, to.ready
	source.States = to.meter.ingest.SetStates
	if source.Decisions != nil {
		return followDeciding(ctx, to, source)
	}
	return minknow.Follow(ctx, source)
}

// minknowRuns lets live runs be fed by MinKNOW.
type minknowRuns struct {
	*ingest.Lives
	*cluster.Cluster
}

func (r minknowRuns) Run(ctx context.Context, run *streampb.Run, feed func(context.Context, minknow.Live) error) error {
	return r.Lives.Run(ctx, run, func(ctx context.Context, l *ingest.Live) error { return feed(ctx, l) })
}
