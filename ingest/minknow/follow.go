package minknow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/stream/streampb"
)

// AllPositions follows every flow cell position of the host.
const AllPositions = "all"

// DefaultClasses are the read classes that are taken if no others are given:
// strands, and what MinKNOW can't distinguish from them yet when a read begins.
func DefaultClasses() []string {
	return []string{"strand", "strand1", "strand2", "short_strand", "adapter", "unknown_positive"}
}

// Live takes the chunks of a run without ever waiting; [ingest.Live] is one. It
// returns false for a chunk that is lost.
type Live interface {
	Chunk(*streampb.SignalChunk) (bool, error)
}

// Runs writes runs to Kafka, several at a time.
type Runs interface {
	// Run writes a run while feed hands its signal to a Live, and its end when feed
	// has returned nil. Errors that wrap an [*ingest.EndedError] or
	// [ingest.ErrFenced] concern that run alone.
	Run(ctx context.Context, run *streampb.Run, feed func(context.Context, Live) error) error
	// Announced is what a run was announced as in Kafka, or nil.
	Announced(ctx context.Context, run string) (*streampb.Run, error)
}

// Config says which positions are followed, and how.
type Config struct {
	// Host and Port are where MinKNOW's manager listens.
	Host string
	Port int
	// CA is the file with the certificate of MinKNOW's own authority. Cert and Key
	// are those of a client certificate; empty means none.
	CA, Cert, Key string
	// TokenFile holds a developer token, Token is one. Without them and without a
	// client certificate, the token is used that MinKNOW leaves for the users of
	// its host, if that is this one, or UseLocalToken says so.
	TokenFile, Token string
	UseLocalToken    *bool
	// Position is the name of the position to follow, or AllPositions.
	Position string
	// Classes are the read classes that are taken.
	Classes []string
	// Filter lets MinKNOW send reads only that begin with these classes. There is
	// less to transfer; but what is missing at the end of a read is not seen then.
	Filter bool
	// Sample, if set, replaces the sample name of every run.
	Sample string
	// AnyPurpose takes runs, too, that are not said to be for sequencing.
	AnyPurpose bool
	// Once returns when one run of each position has ended.
	Once bool
	// MaxBuffered is the number of bytes of signal of a position that may wait
	// until it is taken; 0 means those of 4 seconds, but 32 MiB at least and 256 MiB
	// at most.
	MaxBuffered int
	Runs        Runs
	// Decisions says what is to become of reads; nil: nothing is done with them.
	Decisions *Decisions
	// States is given what the channels of a run do, by MinKNOW's own account: a letter
	// of stream.ChannelLetters for each from channel 1 on, 0 where MinKNOW reported
	// nothing; nil when it reports nothing, or no more. Calls for a position come one
	// after the other, for several positions at the same time. States may be nil.
	States func(run string, letters []byte)
	// Left are runs that an earlier process has begun and not ended.
	Left    []*streampb.Run
	Metrics *Metrics
	Logger  *slog.Logger
	// Ready is called when all positions that are there are followed; nil: not.
	Ready func()

	onTaker func(*taker) // nil: not; for tests
}

func (c *Config) localToken() bool {
	if c.UseLocalToken != nil {
		return *c.UseLocalToken
	}
	return isLocal(c.Host)
}

// What waits until it is taken: so much signal of a flow cell, within bounds.
const (
	waiting    = 4 // seconds
	minWaiting = 32 << 20
	maxWaiting = 256 << 20
)

// inbox is how many bytes of signal of a position may wait.
func (c *Config) inbox(channels, rate uint32) int {
	if c.MaxBuffered > 0 {
		return c.MaxBuffered
	}
	return int(min(max(waiting*2*uint64(channels)*uint64(rate), minWaiting), maxWaiting))
}

// lookoutInterval is how often the manager is asked for new positions.
const lookoutInterval = 15 * time.Second

// Follow takes the runs of flow cell positions as they come and go, until ctx
// ends. It fails at once if MinKNOW can't be reached, does not let this client
// in, or has no such position. Once it has begun, what happens to MinKNOW is
// ridden out, and an error is one of Kafka's.
func Follow(ctx context.Context, cfg Config) error {
	h, err := connect(ctx, &cfg)
	if err != nil {
		return interrupted(ctx, countFault(&cfg, err))
	}
	defer h.close()
	all, err := h.positions(ctx)
	if err != nil {
		return interrupted(ctx, countFault(&cfg, err))
	}
	if cfg.Position != AllPositions && !slices.ContainsFunc(all, func(p *minknowpb.FlowCellPosition) bool { return p.GetName() == cfg.Position }) {
		return countFault(&cfg, h.unknown(cfg.Position, all))
	}
	if cfg.Once && len(all) == 0 {
		return fmt.Errorf("MinKNOW at %s has no flow cell position", h.address)
	}
	group, ctx := errgroup.WithContext(ctx)
	f := &follower{host: h, cfg: &cfg, followed: make(map[string]bool)}
	f.add(ctx, group, all)
	f.unclaimed()
	if cfg.Ready != nil {
		cfg.Ready()
	}
	if cfg.Position == AllPositions && !cfg.Once {
		group.Go(contain.Panics(func() error { return f.lookout(ctx, group) }))
	}
	return group.Wait()
}

func countFault(cfg *Config, err error) error {
	cfg.Metrics.faults.WithLabelValues(faultReason(err)).Inc()
	return err
}

// faultReason is what a fault is counted as.
func faultReason(err error) string {
	var call *callError
	var permanent *PermanentError
	switch {
	case errors.As(err, &call):
		return call.reason
	case errors.As(err, &permanent):
		return permanent.Reason
	case errors.Is(err, errNotRunning):
		return "position"
	case errors.Is(err, ingest.ErrFenced):
		return "fenced"
	}
	return "call"
}

// follower follows the positions of a host.
type follower struct {
	host     *host
	cfg      *Config
	followed map[string]bool
}

// add follows the positions that are wanted and not followed yet.
func (f *follower) add(ctx context.Context, group *errgroup.Group, all []*minknowpb.FlowCellPosition) {
	for _, found := range all {
		name := found.GetName()
		if f.followed[name] || f.cfg.Position != AllPositions && f.cfg.Position != name {
			continue
		}
		f.followed[name] = true
		p := &position{
			name: name, host: f.host, cfg: f.cfg, log: f.cfg.Logger.With("position", name),
			metrics: &positionMetrics{m: f.cfg.Metrics, position: name},
		}
		for _, run := range f.cfg.Left {
			if run.GetPosition() == name {
				p.left = append(p.left, run)
			}
		}
		group.Go(contain.Panics(func() error { return p.follow(ctx) }))
	}
}

// unclaimed logs runs that were left and that no position can go on with.
func (f *follower) unclaimed() {
	for _, run := range f.cfg.Left {
		if !f.followed[run.GetPosition()] {
			f.cfg.Logger.Warn("the spool has signal of a run of a position that is not followed, which stays there", "run", run.GetId(), "position", run.GetPosition())
		}
	}
}

// lookout follows positions that come later.
func (f *follower) lookout(ctx context.Context, group *errgroup.Group) error {
	tick := time.NewTicker(lookoutInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		all, err := f.host.positions(ctx)
		if err != nil {
			f.cfg.Logger.Debug("searching for new positions", "err", err)
			continue
		}
		f.add(ctx, group, all)
	}
}
