package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/porestream/porestream/chaos/load/sequencer"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

const (
	// sampleEvery is how often the processes' usage is sampled.
	sampleEvery = time.Second
	// startWithin is how long ingest may take to ask for signal, endWithin how long
	// the others may take behind the last signal.
	startWithin = 2 * time.Minute
	endWithin   = 5 * time.Minute
)

// run gives the load and returns what became of it.
func run(ctx context.Context, cfg *config) (_ *report, err error) {
	cell, err := cfg.cell(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.out, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for logs: %w", err)
	}
	work, err := os.MkdirTemp("", "porestream-load-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the broker: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	certificate, ca, err := certify(work)
	if err != nil {
		return nil, err
	}
	seq, err := sequencer.Start(sequencer.Config{Cell: cell, Pace: cfg.pace, Patience: cfg.patience, Certificate: certificate})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, seq.Stop()) }()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	broker, err := launch(ctx, "broker", cfg.out, self, "broker", filepath.Join(work, "broker"))
	if err != nil {
		return nil, err
	}
	defer func() { stop(); <-broker.done }() // before its folder is removed
	addr, err := broker.line()
	if err != nil {
		return nil, err
	}
	if err := makeTopics(ctx, addr, cfg.partitions); err != nil {
		return nil, err
	}
	stage, err := launch(ctx, "stage", cfg.out, self, "stage", "--broker", addr, "--channels", strconv.Itoa(cfg.channels), "--partitions", strconv.Itoa(cfg.partitions))
	if err != nil {
		return nil, err
	}
	ingest, err := launch(ctx, "ingest", cfg.out, filepath.Join(cfg.bin, "ingest"), "minknow", "--brokers", addr, "--once",
		"--host", "127.0.0.1", "--port", strconv.Itoa(seq.Port()), "--minknow-ca", ca, "--listen", "127.0.0.1:0",
		"--spool", filepath.Join(work, "spool"), "--max-runs", "1")
	if err != nil {
		return nil, err
	}
	l := &load{cfg: cfg, seq: seq, ingest: ingest, broker: broker, stage: stage, own: &process{name: "sequencer", pid: os.Getpid(), done: make(chan struct{})}}
	return l.await(ctx)
}

// certify makes MinKNOW's certificate, and a file with that of its authority.
func certify(dir string) (certificate tls.Certificate, ca string, err error) {
	authority, err := streamtest.NewAuthority()
	if err != nil {
		return certificate, "", err
	}
	id, err := authority.Issue("localhost", 24*time.Hour)
	if err != nil {
		return certificate, "", err
	}
	if certificate, err = tls.X509KeyPair(id.CertPEM, id.KeyPEM); err != nil {
		return certificate, "", fmt.Errorf("making the sequencer's certificate: %w", err)
	}
	ca = filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, id.CAPEM, 0o600); err != nil {
		return certificate, "", fmt.Errorf("writing the authority's certificate: %w", err)
	}
	return certificate, ca, nil
}

func makeTopics(ctx context.Context, addr string, partitions int) error {
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{addr}})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.EnsureTopics(ctx, stream.NewTopics("").Settings(partitions), 1)
}

// load is a load in progress.
type load struct {
	cfg                        *config
	seq                        *sequencer.Sequencer
	own, ingest, broker, stage *process
}

// await samples the processes' usage while signal flows, and waits for their ends.
func (l *load) await(ctx context.Context) (*report, error) {
	if err := l.until(ctx, l.seq.Began(), startWithin, "ingest to ask for signal"); err != nil {
		return nil, err
	}
	if err := l.watch(ctx); err != nil {
		return nil, err
	}
	ended := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, endWithin, fmt.Errorf("it has not come in %v", endWithin))
	defer cancel()
	if err := l.ingest.wait(ctx); err != nil {
		return nil, err
	}
	line, err := l.stage.line()
	if err != nil {
		return nil, err
	}
	r := &report{cfg: l.cfg, processes: []*process{l.own, l.ingest, l.broker, l.stage}, ingest: l.ingest, given: l.seq.Report()}
	if err := json.Unmarshal([]byte(line), &r.decoded); err != nil {
		return nil, fmt.Errorf("reading what the stage has decoded: %w", err)
	}
	r.lasted = l.own.last.at.Sub(l.own.first.at)
	r.after = max(0, time.Unix(0, r.decoded.Ended).Sub(ended))
	return r, l.stage.wait(ctx)
}

// watch samples the processes' usage until all signal is given.
func (l *load) watch(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		for _, p := range []*process{l.own, l.ingest, l.broker, l.stage} {
			if err := p.sample(); err != nil {
				return err
			}
		}
		select {
		case <-l.seq.Finished():
			return nil
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ingest.done:
			return l.early(l.ingest)
		case <-l.broker.done:
			return l.early(l.broker)
		case <-l.stage.done:
			return l.early(l.stage)
		}
	}
}

// until waits for what a channel says, while all processes live.
func (l *load) until(ctx context.Context, said <-chan struct{}, within time.Duration, what string) error {
	select {
	case <-said:
		return nil
	case <-l.ingest.done:
		return l.early(l.ingest)
	case <-l.broker.done:
		return l.early(l.broker)
	case <-l.stage.done:
		return l.early(l.stage)
	case <-time.After(within):
		return fmt.Errorf("waiting for %s: it has not in %v; %s has what it says", what, within, l.ingest.log)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// early is the error of a process that has ended before its time.
func (l *load) early(p *process) error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("%s has ended before all signal was given: %s", p.name, p.said())
}
