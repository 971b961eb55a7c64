package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/stream/streamtest"
)

// Each role does its work with the rights that package access lists, and fails
// with an error that names the resource without any one of them: none is
// missing, and none is too many.
func TestLeastRights(t *testing.T) {
	lib := os.Getenv(streamtest.LibVariable)
	if lib == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	t.Parallel()
	users := map[string]string{adminUser: secret}
	for _, role := range access.Roles() {
		users["user-"+role] = secret
	}
	broker, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{
		Lib: lib, Dir: t.TempDir(), Users: users, Admin: adminUser,
		Listeners: []streamtest.Listener{{Name: "SASL", SASL: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, broker.Stop()) })
	connect := func(user string) (*Client, error) {
		return Connect(t.Context(), Config{Brokers: []string{broker.Addr}, DialTimeout: patience, RequestTimeout: 10 * time.Second,
			SASL: &SASLConfig{Mechanism: MechanismPlain, User: user, Password: secret}})
	}
	admin, err := connect(adminUser)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	d := access.Deployment{Prefix: "lab.", Group: "porestream", Panels: true, Adaptive: true, Basecalls: true, Methylation: true}
	require.NoError(t, admin.EnsureTopics(t.Context(), d.Topics(1), 1))
	seed(t, admin, d)

	for _, role := range access.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			d := d
			rights, err := d.Rights(role)
			require.NoError(t, err)
			work := func() error {
				c, err := connect("user-" + role)
				if err != nil {
					return err
				}
				defer c.Close()
				return workOf(t.Context(), c, d, role)
			}
			principal := "User:user-" + role
			if role == access.RoleAdmin {
				// Its work is done once the topics are there, so that each right is
				// missed under a prefix of its own, where it was never granted: a
				// broker that hears late of one taken away would let all of it be done.
				for i := range rights {
					d.Prefix = fmt.Sprintf("new%d.", i)
					rights, err := d.Rights(role)
					require.NoError(t, err)
					require.NoError(t, admin.Grant(t.Context(), principal, slices.Concat(rights[:i], rights[i+1:])))
					if err := failsFor(t, work, rights[i]); i == 0 {
						t.Log(err)
					}
					require.NoError(t, admin.Grant(t.Context(), principal, rights[i:i+1]))
					succeeds(t, work)
				}
				return
			}
			require.NoError(t, admin.Grant(t.Context(), principal, rights))
			succeeds(t, work)
			for i, r := range rights {
				require.NoError(t, admin.Revoke(t.Context(), principal, []access.Right{r}))
				if err := failsFor(t, work, r); i == 0 {
					t.Log(err)
				}
				require.NoError(t, admin.Grant(t.Context(), principal, []access.Right{r}))
			}
			succeeds(t, work)
		})
	}
}

// settleTime bounds how long rights take to reach a broker.
const settleTime = time.Minute

func succeeds(t *testing.T, work func() error) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, work()) }, settleTime, 10*time.Millisecond)
}

func failsFor(t *testing.T, work func() error, r access.Right) error {
	t.Helper()
	var last error
	end := time.Now().Add(settleTime)
	for {
		last = work()
		if last != nil && strings.Contains(last.Error(), strings.TrimSuffix(r.Name, "-")) && Advice(last) == grant {
			return last
		}
		if time.Now().After(end) {
			require.Fail(t, "the right is not missed", "%s %s on %s %s: %v", r.Resource, r.Name, r.Operation, r.For, last)
		}
	}
}

// seed writes a record to every topic, so that there is something to read.
func seed(t *testing.T, c *Client, d access.Deployment) {
	t.Helper()
	p := newProducer(t, c, ProducerConfig{})
	for _, s := range d.Topics(0) {
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: s.Name, Key: []byte("k"), Value: []byte("v")}}, nil))
	}
	require.NoError(t, p.Flush(t.Context()))
}

// workOf does what a role does at the brokers.
func workOf(ctx context.Context, c *Client, d access.Deployment, role string) error {
	t := stream.NewTopics(d.Prefix)
	read := func(topics ...string) error {
		for _, topic := range topics {
			if err := c.Consume(ctx, topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(stream.Record) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	}
	check := func() error { return c.EnsureTopics(ctx, d.Topics(1), 1) }
	switch role {
	case access.RoleIngest:
		return firstOf(check, func() error { return read(t.Cursors, t.Runs, t.Decisions) },
			func() error {
				return writeAll(ctx, c, d.Prefix+"ingest/run", nil, t.Signal, t.Called, t.Runs, t.Cursors)
			},
			func() error { return produceAll(ctx, c, t.Status) })
	case access.RoleAdaptive:
		return firstOf(check, func() error { return read(t.Signal, t.Runs) },
			func() error { return produceAll(ctx, c, t.Decisions, t.Status) },
			func() error { return rewindTo(ctx, c, d.GroupOf(role), t.Signal) })
	case access.RolePage:
		return firstOf(check, func() error { return read(t.Status, t.Runs, t.Variants, t.DeadLetters, t.Alerts, t.Methylation) })
	case access.RoleConsumer:
		return firstOf(func() error { return read(t.Variants, t.Alerts, t.Basecalls, t.Methylation) }, func() error { return rewindTo(ctx, c, d.ConsumerGroups()+"x", t.Variants) })
	case access.RoleNotify:
		return firstOf(func() error { return read(t.Alerts) },
			func() error {
				// Without a topic that it may write to, a broker refuses the program's id, and names none.
				if err := produceAll(ctx, c, t.DeadLetters); err != nil {
					return fmt.Errorf("writing to %s: %w", t.DeadLetters, err)
				}
				return nil
			},
			func() error { return rewindTo(ctx, c, d.NotifyGroups()+"x", t.Alerts) })
	case access.RoleOperator:
		inputs := []string{t.Signal, t.Called, t.Reads, t.Calls, t.Watch}
		return firstOf(check, func() error { return read(append(inputs, t.DeadLetters, t.State)...) },
			func() error { return writeAll(ctx, c, d.OperatorID(), nil, append(inputs, t.DeadLetters, t.State)...) },
			func() error { return rewindTo(ctx, c, d.GroupOf("basecall"), t.Signal) },
			func() error { return rewindTo(ctx, c, d.GroupOf("align"), t.Called) },
			func() error { return rewindTo(ctx, c, d.GroupOf("variant"), t.Reads) },
			func() error { return rewindTo(ctx, c, d.GroupOf("methylate"), t.Reads) },
			func() error { return rewindTo(ctx, c, d.GroupOf("annotate"), t.Calls) },
			func() error { return rewindTo(ctx, c, d.GroupOf("watch"), t.Watch) })
	case access.RoleAdmin:
		return firstOf(check, check)
	}
	input, outputs := "", []string{t.DeadLetters, t.State, t.Status}
	switch role {
	case access.RoleBasecall:
		input, outputs = t.Signal, append(outputs, t.Reads, t.Basecalls, t.Runs, t.Signal)
	case access.RoleAlign:
		input, outputs = t.Called, append(outputs, t.Reads, t.Basecalls, t.Runs, t.Called)
	case access.RoleVariant:
		input, outputs = t.Reads, append(outputs, t.Calls, t.Reads)
	case access.RoleMethylate:
		input, outputs = t.Reads, append(outputs, t.Methylation, t.Reads)
	case access.RoleAnnotate:
		input, outputs = t.Calls, append(outputs, t.Variants, t.Watch)
	case access.RoleWatch:
		input, outputs = t.Watch, append(outputs, t.Alerts)
	}
	group := d.GroupOf(role)
	source := snapshot.Source{Group: group, Topic: input}
	return firstOf(check, func() error { return read(input) },
		func() error {
			_, err := c.ReadState(ctx, t.State, source, FetchConfig{})
			return err
		},
		func() error {
			_, _, err := c.CommittedOffset(ctx, group, input, 0)
			return err
		},
		func() error {
			return writeAll(ctx, c, group+"/"+input+"/0", &GroupOffsets{Group: group, Generation: -1, Topic: input, Offset: 1}, outputs...)
		})
}

func firstOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func rewindTo(ctx context.Context, c *Client, group, topic string) error {
	return c.CommitOffsets(ctx, GroupOffsets{Group: group, Generation: -1, Topic: topic})
}

// produceAll writes a record to every topic without a transaction.
func produceAll(ctx context.Context, c *Client, topics ...string) (err error) {
	p, err := NewProducer(ctx, c, ProducerConfig{DeliveryTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, topic := range topics {
		if err := p.Send(ctx, []stream.Out{{Topic: topic, Key: []byte("k"), Value: []byte("v")}}, nil); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// writeAll writes a record to every topic in one transaction.
func writeAll(ctx context.Context, c *Client, id string, offsets *GroupOffsets, topics ...string) (err error) {
	tx, err := NewTransactor(ctx, c, id, ProducerConfig{})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Abort(ctx) // err, the reason, is returned
		}
		err = errors.Join(err, tx.Close(ctx))
	}()
	for _, topic := range topics {
		written := make(chan error, 1)
		if err := tx.Send(ctx, []stream.Out{{Topic: topic, Key: []byte("k"), Value: []byte("v")}}, func(err error) { written <- err }); err != nil {
			return err
		}
		if err := <-written; err != nil {
			return err
		}
	}
	return tx.Commit(ctx, offsets)
}
