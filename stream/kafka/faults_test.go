package kafka

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

var updateDocs = flag.Bool("update", false, "write the table of faults into docs/operate/operations.md")

// fault is a fault that a user meets: a row of docs/operate/operations.md.
type fault struct {
	name string
	// says and do are parts of the line that is printed.
	says, do string
	// act brings the fault about and returns the error.
	act func(t *testing.T, b *faultBrokers) error
}

// faultBrokers are what faults are met at: a real broker that is set up badly in
// several ways at once.
type faultBrokers struct {
	apache *streamtest.Apache
	admin  *Client // everything is allowed to it
	guest  *Client // nothing is
	dir    string
}

func faults() []fault {
	connect := func(addr string, change func(*Config)) error {
		cfg := Config{Brokers: []string{addr}, DialTimeout: patience}
		if change != nil {
			change(&cfg)
		}
		c, err := Connect(context.Background(), cfg)
		if err == nil {
			c.Close()
		}
		return err
	}
	user := func(name, password string) func(*Config) {
		return func(c *Config) { c.SASL = &SASLConfig{Mechanism: MechanismScramSHA512, User: name, Password: password} }
	}
	ensure := func(b *faultBrokers, s stream.TopicSettings, replication int) error {
		return b.admin.EnsureTopics(context.Background(), []stream.TopicSettings{s}, replication)
	}
	return []fault{
		{"broker down", "nobody listens there", "does the broker run, and is the port right?",
			func(t *testing.T, _ *faultBrokers) error { return connect(closedAddr(t), nil) }},
		{"unknown host", "unknown host", "mind the name and this machine's DNS",
			func(*testing.T, *faultBrokers) error { return connect("no-such-host.invalid:9092", nil) }},
		{"wrong port", "what listens there is not a Kafka broker", "is the port right?",
			func(t *testing.T, _ *faultBrokers) error { return connect(foreignAddr(t), nil) }},
		{"TLS to a plain port", "this port does not speak TLS", "connect without TLS or use the TLS port",
			func(_ *testing.T, b *faultBrokers) error {
				return connect(b.apache.Listener("SASL"), func(c *Config) { c.TLS = &TLSConfig{} })
			}},
		{"plain text to a TLS port", "this port expects TLS", "give --tls, or --tls-ca FILE",
			func(_ *testing.T, b *faultBrokers) error { return connect(b.apache.Listener("TLS"), nil) }},
		{"unknown authority", "signed by an authority that is not trusted", "name its CA file (--tls-ca)",
			func(_ *testing.T, b *faultBrokers) error {
				return connect(b.apache.Listener("TLS"), func(c *Config) { c.TLS = &TLSConfig{} })
			}},
		{"no client certificate", "or wants one", "give one that is valid and signed by an authority that the broker trusts (--tls-cert, --tls-key)",
			func(_ *testing.T, b *faultBrokers) error {
				return connect(b.apache.Listener("MUTUAL"), func(c *Config) { c.TLS = &TLSConfig{CAFile: filepath.Join(b.dir, "ca.pem")} })
			}},
		{"no user", "the broker hangs up on a client without user", "it may expect a user and password on this port",
			func(_ *testing.T, b *faultBrokers) error { return connect(b.apache.Listener("SASL"), nil) }},
		{"wrong password", `refuses user "pore"`, "mind --sasl-user, the password and --sasl-mechanism",
			func(_ *testing.T, b *faultBrokers) error {
				return connect(b.apache.Listener("SASL"), user(adminUser, wrongSecret))
			}},
		{"no right to a topic", "[29] Topic Authorization Failed", "give the user the rights that pore acls --role ROLE lists",
			func(t *testing.T, b *faultBrokers) error {
				_, err := b.guest.Partitions(t.Context(), "present")
				return err
			}},
		{"no right to a consumer group", "[30] Group Authorization Failed", "give the user the rights that pore acls --role ROLE lists",
			func(t *testing.T, b *faultBrokers) error { return rewindTo(t.Context(), b.guest, "group", "present") }},
		{"no right to a transactional id", "[53] Transactional ID Authorization Failed", "give the user the rights that pore acls --role ROLE lists",
			func(t *testing.T, b *faultBrokers) error { return writeAll(t.Context(), b.guest, "id", nil, "present") }},
		{"topic missing", "topic absent does not exist", "make the topic with pore topics create, or mind --topic-prefix",
			func(t *testing.T, b *faultBrokers) error {
				_, err := b.admin.Partitions(t.Context(), "absent")
				return err
			}},
		{"other number of partitions", "the number of partitions is 1, needed is 3", "kafka-topics.sh --bootstrap-server",
			func(_ *testing.T, b *faultBrokers) error {
				return ensure(b, stream.TopicSettings{Name: "present", Partitions: 3}, 1)
			}},
		{"other settings of a topic", "cleanup.policy is delete, needed is compact", "kafka-configs.sh --bootstrap-server",
			func(_ *testing.T, b *faultBrokers) error {
				return ensure(b, stream.TopicSettings{Name: "present", Config: map[string]string{"cleanup.policy": "compact"}}, 1)
			}},
		{"more replicas than brokers", "[38] Invalid Replication Factor", "--replication asks for more brokers than there are",
			func(_ *testing.T, b *faultBrokers) error {
				return ensure(b, stream.TopicSettings{Name: "wide", Partitions: 1}, 3)
			}},
		{"name that is none", "[17] Invalid Topic", "a topic's name has letters, digits, '.', '_' and '-' only",
			func(_ *testing.T, b *faultBrokers) error {
				return ensure(b, stream.TopicSettings{Name: "no name", Partitions: 1}, 1)
			}},
		{"message too large", "exceeds max.message.bytes of topic small", "raise max.message.bytes of the topic to 1048588",
			func(t *testing.T, b *faultBrokers) error { return produceTo(t, b.admin, "small", make([]byte, 5000)) }},
		{"too few replicas in sync", "[19] Not Enough Replicas", "start the others",
			func(t *testing.T, _ *faultBrokers) error {
				fake := streamtest.Kfake(t)
				c := dial(t, fake.ListenAddrs()[0])
				topic := newTopic(t, c, 1)
				streamtest.Refuse(fake, kmsg.Produce, kerr.NotEnoughReplicas, -1)
				return produceTo(t, c, topic, []byte("v"))
			}},
		{"clock of this machine", "[32] Invalid Timestamp", "check this machine's clock",
			func(t *testing.T, b *faultBrokers) error {
				// To the broker this machine is an hour behind.
				narrow := stream.TopicSettings{Name: "narrow", Partitions: 1, Config: map[string]string{"message.timestamp.before.max.ms": "60000"}}
				require.NoError(t, ensure(b, narrow, 1))
				err := produceAt(t, b.admin, "narrow", []byte("v"), time.Now().Add(-time.Hour))
				require.True(t, IsClock(err), "%v", err)
				return err
			}},
		{"coordinator not available", "[15] Group Coordinator Not Available", "start the brokers that hold __consumer_offsets and __transaction_state",
			func(t *testing.T, b *faultBrokers) error { return rewindTo(t.Context(), b.admin, "group", "present") }},
		{"transaction timeout above the broker's", "[50] Invalid Transaction Timeout", "raise the brokers' transaction.max.timeout.ms to a minute at least",
			func(t *testing.T, b *faultBrokers) error {
				return writeAll(t.Context(), b.admin, "long", nil, "present")
			}},
		{"transactional id in use", "fenced", "another process works under the same transactional id",
			func(t *testing.T, b *faultBrokers) error { return fenced(t, b.admin) }},
		{"records expired", "offset 99 is not in the log", "raise retention.ms, or begin elsewhere",
			func(t *testing.T, b *faultBrokers) error {
				_, err := b.admin.NewFetcher("present", 0, 99, FetchConfig{}).Next(t.Context())
				return err
			}},
		{"broker too old", "[35] Unsupported Version", "update the brokers, or use --delivery at-least-once",
			func(t *testing.T, _ *faultBrokers) error {
				return writeAll(t.Context(), dial(t, streamtest.Kfake(t, kfake.MaxVersions(kversion.V0_11_0())).ListenAddrs()[0]), "id", nil, "t")
			}},
		{"brokers without classic groups", "the brokers refuse consumer groups of the classic protocol", "enable them (classic in group.coordinator.rebalance.protocols)",
			func(t *testing.T, _ *faultBrokers) error { return joinRefused(t, kerr.UnsupportedVersion) }},
		{"group of another protocol", "[23] Inconsistent Group Protocol", "name another group (--group)",
			func(t *testing.T, _ *faultBrokers) error { return joinRefused(t, kerr.InconsistentGroupProtocol) }},
		{"disk of a broker full", "[5] Leader Not Available", "see whether a disk of theirs is full", fullDisk},
	}
}

// joinRefused is what becomes of a member whose brokers refuse it.
func joinRefused(t *testing.T, with *kerr.Error) error {
	fake := streamtest.Kfake(t)
	c := dial(t, fake.ListenAddrs()[0])
	streamtest.Refuse(fake, kmsg.JoinGroup, with, -1)
	return joinGroup(t, c)
}

// joinGroup is a member of a group that ends by itself only if it is refused.
func joinGroup(t *testing.T, c *Client) error {
	return RunGroup(t.Context(), c, impatient(GroupConfig{Group: t.Name(), Topics: []string{newTopic(t, c, 1)}, Producer: newProducer(t, c, ProducerConfig{}),
		NewHandler: func(string, int32, int32) (stream.Handler, error) { return nil, errors.New("there is a generation") }}))
}

// TestBrokersWithoutClassicGroups: where a broker refuses groups of the classic protocol, by an answer or because it doesn't
// list the request, one line reports that and what to do. A broker that is too old for transactions is reported as that.
func TestBrokersWithoutClassicGroups(t *testing.T) {
	t.Parallel()
	withoutJoin := kversion.V4_0_0()
	withoutJoin.SetMaxKeyVersion(int16(kmsg.JoinGroup), -1)
	unlisted := streamtest.Kfake(t, kfake.MaxVersions(withoutJoin))
	for name, err := range map[string]error{
		"refused":  joinRefused(t, kerr.UnsupportedVersion),
		"unlisted": joinGroup(t, dial(t, unlisted.ListenAddrs()[0])),
	} {
		require.ErrorContains(t, err, "joining: the brokers refuse consumer groups of the classic protocol", name)
		require.NotContains(t, err.Error(), "\n")
		require.Contains(t, Advice(err), "enable them")
		require.NotContains(t, Advice(err), "transactions")
	}
}

// Every fault is met at a real broker, and the line that is printed says what
// it is and what to do.
func TestFaultsAreExplained(t *testing.T) {
	if os.Getenv(streamtest.LibVariable) == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	t.Parallel()
	b := startFaulty(t)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			err := f.act(t, b)
			require.Error(t, err)
			line := err.Error() + "; " + Advice(err)
			assert.Contains(t, line, f.says)
			assert.Contains(t, line, f.do)
			assert.NotContains(t, line, "\n")
			t.Log(line)
		})
	}
	t.Run("quota", func(t *testing.T) { quotaSlowsDown(t, b) })
}

// The table in the documentation is made of the faults that the test above
// meets.
func TestFaultsAreDocumented(t *testing.T) {
	const begin, end = "<!-- faults: go test ./stream/kafka -run TestFaultsAreDocumented -update -->\n", "<!-- end of faults -->\n"
	path := filepath.Join("..", "..", "docs", "operate", "operations.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	table := "| fault | printed | what to do, as printed |\n|---|---|---|\n"
	for _, f := range faults() {
		table += fmt.Sprintf("| %s | `%s` | %s |\n", f.name, f.says, strings.ReplaceAll(f.do, "|", `\|`))
	}
	want := before + begin + table + end + after
	if *updateDocs {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page))
}

func closedAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

// foreignAddr is where something else than Kafka answers.
func foreignAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			conn.Close()
		}
	}()
	return ln.Addr().String()
}

func startFaulty(t *testing.T) *faultBrokers {
	t.Helper()
	id, err := streamtest.NewIdentity()
	require.NoError(t, err)
	b := &faultBrokers{dir: t.TempDir()}
	b.apache, err = streamtest.StartApache(t.Context(), streamtest.ApacheConfig{
		Lib: os.Getenv(streamtest.LibVariable), Dir: b.dir, Identity: id,
		Users: map[string]string{adminUser: secret, "guest": secret}, Admin: adminUser,
		Listeners: []streamtest.Listener{
			{Name: "SASL", SASL: true}, {Name: "TLS", TLS: true}, {Name: "MUTUAL", TLS: true, ClientCertificate: true},
		},
		Properties: map[string]string{"offsets.topic.replication.factor": "3", "transaction.max.timeout.ms": "30000"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.apache.Stop()) })
	as := func(user string) *Client {
		c, err := Connect(t.Context(), Config{Brokers: []string{b.apache.Addr}, DialTimeout: patience, RequestTimeout: 3 * time.Second,
			SASL: &SASLConfig{Mechanism: MechanismScramSHA512, User: user, Password: secret}})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	b.admin, b.guest = as(adminUser), as("guest")
	require.NoError(t, b.admin.EnsureTopics(t.Context(), []stream.TopicSettings{
		{Name: "present", Partitions: 1},
		{Name: "readable", Partitions: 1},
		{Name: "small", Partitions: 1, Config: map[string]string{"max.message.bytes": "1000"}},
	}, 1))
	return b
}

// produceTo writes one record, without trying for long.
func produceTo(t *testing.T, c *Client, topic string, value []byte) error {
	t.Helper()
	return produceAt(t, c, topic, value, time.Time{})
}

func produceAt(t *testing.T, c *Client, topic string, value []byte, at time.Time) error {
	t.Helper()
	p, err := NewProducer(t.Context(), c, ProducerConfig{DeliveryTimeout: 2 * time.Second})
	require.NoError(t, err)
	written := make(chan error, 1)
	require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Value: value, Time: at}}, func(err error) { written <- err }))
	return errors.Join(<-written, closeQuietly(p))
}

func closeQuietly(p *Producer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Close(ctx) // it says again what was not written
	return nil
}

func fenced(t *testing.T, c *Client) error {
	t.Helper()
	short := ProducerConfig{TransactionTimeout: 20 * time.Second}
	first, err := NewTransactor(t.Context(), c, "shared", short)
	require.NoError(t, err)
	second, err := NewTransactor(t.Context(), c, "shared", short)
	require.NoError(t, err)
	require.NoError(t, first.Send(t.Context(), []stream.Out{{Topic: "present", Value: []byte("v")}}, nil))
	err = first.Commit(t.Context(), nil)
	_ = first.Close(t.Context()) // Commit's error is the one under test
	require.NoError(t, second.Close(t.Context()))
	return err
}

// fullDisk has a broker run out of space in one of its two folders. The limit
// leaves space for the indexes, which have their full size from the start.
func fullDisk(t *testing.T, _ *faultBrokers) error {
	dir := t.TempDir()
	b, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{
		Lib: os.Getenv(streamtest.LibVariable), Dir: dir, MaxFileBytes: 12 << 20,
		Properties: map[string]string{
			"log.dirs":         filepath.Join(dir, "a") + "," + filepath.Join(dir, "b"),
			"metadata.log.dir": filepath.Join(dir, "meta"),
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Kill()) })
	c, err := Connect(t.Context(), Config{Brokers: []string{b.Addr}, DialTimeout: patience, RequestTimeout: 3 * time.Second})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "t", Partitions: 1}}, 1))
	for {
		if err := produceTo(t, c, "t", make([]byte, 900_000)); err != nil {
			return err
		}
	}
}

// quotaSlowsDown shows that a used-up quota is no fault: the broker makes its
// client wait, and everything is written.
func quotaSlowsDown(t *testing.T, b *faultBrokers) {
	admin := &kafka.Client{Addr: b.admin.addr, Transport: b.admin.transport}
	_, err := admin.AlterClientQuotas(t.Context(), &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{
		Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: adminUser}},
		Ops:      []kafka.AlterClientQuotaOps{{Key: "producer_byte_rate", Value: 100_000}},
	}}})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, produceTo(t, b.admin, "readable", make([]byte, 100_000)))
	}
	assert.Len(t, contents(t, b.admin, "readable")[0], 3)
}
