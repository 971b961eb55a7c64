package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
)

// Service notifies the destinations of a deployment.
type Service struct {
	Client     *kafka.Client
	Config     *Config
	Deployment access.Deployment
	Metrics    *Metrics
	Logger     *slog.Logger
	// Group bounds the membership in the groups; the zero value is right but for tests.
	Group kafka.GroupConfig
	// Dealt, if set, is called for each record that a destination has, wants none of, or that was given up for it; from several goroutines.
	Dealt func(destination string, rec stream.Record, givenUp bool)
}

// Run notifies all destinations, once there is a topic of alerts, until ctx ends, then lets requests that are under way end, and commits.
func (s *Service) Run(ctx context.Context) error {
	topics := stream.NewTopics(s.Deployment.Prefix)
	partitions, _, err := s.Client.AwaitTopic(ctx, topics.Alerts, "processors with --panel, pore topics create --panels")
	if err != nil {
		return err
	}
	couriers := make([]*courier, len(s.Config.Destinations))
	for i := range s.Config.Destinations {
		d := &s.Config.Destinations[i]
		if couriers[i], err = newCourier(d, topics.DeadLetters, s.Metrics, s.Logger); err != nil {
			return fmt.Errorf("destination %s: %w", d.Name, err)
		}
		couriers[i].dealt = s.Dealt
	}
	producer, err := kafka.NewProducer(ctx, s.Client, kafka.ProducerConfig{})
	if err != nil {
		return fmt.Errorf("getting ready to write to %s: %w", topics.DeadLetters, err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range couriers {
		group.Go(func() error { return s.destination(groupCtx, c, topics.Alerts, partitions, producer) })
	}
	err = group.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, producer.Close(closing))
}

// GroupOf is the consumer group of a destination.
func GroupOf(d access.Deployment, destination string) string {
	return d.NotifyGroups() + destination
}

func (s *Service) destination(ctx context.Context, c *courier, topic string, partitions int, producer *kafka.Producer) error {
	cfg := s.Group
	cfg.Group, cfg.Topics = GroupOf(s.Deployment, c.name), []string{topic}
	if err := s.begin(ctx, c, cfg.Group, topic, partitions); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // being asked to stop is no failure
		}
		return fmt.Errorf("destination %s: %w", c.name, err)
	}
	cfg.Delivery, cfg.Producer, cfg.Stateless = kafka.AtLeastOnce, producer, true
	cfg.NewHandler = func(string, int32, int32) (stream.Handler, error) { return handler{c}, nil }
	// A request that is under way may end before the partitions go to others.
	cfg.DrainTimeout = c.timeout + 5*time.Second
	cfg.SessionTimeout = max(cfg.SessionTimeout, 30*time.Second, cfg.DrainTimeout+10*time.Second)
	if err := kafka.RunGroup(ctx, s.Client, cfg); err != nil {
		return fmt.Errorf("destination %s: %w", c.name, err)
	}
	return nil
}

// begin gives a destination that is new its place: behind what is too old to be sent.
func (s *Service) begin(ctx context.Context, c *courier, group, topic string, partitions int) error {
	var first []int64
	for p := range int32(partitions) {
		at, _, err := s.Client.CommittedOffset(ctx, group, topic, p)
		if err != nil {
			return err
		}
		if at >= 0 {
			continue
		}
		if first == nil {
			if first, err = s.Client.OffsetsAt(ctx, topic, time.Now().Add(-c.giveUp)); err != nil {
				return err
			}
		}
		err = s.Client.CommitOffsets(ctx, kafka.GroupOffsets{Group: group, Generation: -1, Topic: topic, Partition: p, Offset: first[p]})
		if errors.Is(err, kafka.ErrFenced) {
			return nil // another process notifies this destination already
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Try sends an example to every destination, once, and calls report with the
// outcome of each.
func Try(ctx context.Context, cfg *Config, log *slog.Logger, report func(destination string, err error)) error {
	a := Example()
	document, err := a.JSON()
	if err != nil {
		return err
	}
	m := &message{View: View{a}, document: document, at: time.Now(), source: "urn:porestream:test", subject: a.Panel.ID + "/" + a.Rule, key: a.Key()}
	failed := 0
	for i := range cfg.Destinations {
		d := &cfg.Destinations[i]
		c, err := newCourier(d, "", NewMetrics(prometheus.NewRegistry()), log)
		if err == nil {
			err = c.try(ctx, m)
		}
		if err != nil {
			failed++
		}
		report(d.Name, err)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d destinations don't take the test", failed, len(cfg.Destinations))
	}
	return nil
}
