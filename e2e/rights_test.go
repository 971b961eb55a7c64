package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// A whole run with every program under a user of its own, which has the rights
// that pore acls gives it and no more.
func TestRunWithLeastRights(t *testing.T) {
	t.Parallel()
	lib := os.Getenv(streamtest.LibVariable)
	if lib == "" {
		t.Skipf("needs the jars of Apache Kafka: set %s (stream/streamtest/kafka/fetch.sh)", streamtest.LibVariable)
	}
	dir := t.TempDir()
	users := map[string]string{"admin": "admin-pw", "maker": "maker-pw", "sequencer": "sequencer-pw", "processor": "processor-pw", "lims": "lims-pw", "operator": "operator-pw"}
	broker, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{
		Lib: lib, Dir: dir, Users: users, Admin: "admin", Listeners: []streamtest.Listener{{Name: "SASL", SASL: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { broker.Stop() })
	as := func(user string, args ...string) []string {
		file := filepath.Join(dir, user+".password")
		require.NoError(t, os.WriteFile(file, []byte(users[user]), 0o600))
		return append(args, "--brokers", broker.Addr, "--sasl-mechanism", kafka.MechanismScramSHA512, "--sasl-user", user, "--sasl-password-file", file)
	}
	for user, role := range map[string]string{"maker": "admin", "sequencer": "ingest", "processor": "processor", "lims": "consumer", "operator": "operator"} {
		res := pore(t, as("admin", "acls", "--role", role, "--principal", "User:"+user, "--apply")...)
		require.Zero(t, res.code, res.stderr)
	}
	res := pore(t, as("maker", "topics", "create", "--partitions", "3")...)
	require.Zero(t, res.code, res.stderr)

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ingest := start(t, cancel, "ingest", as("sequencer", "--listen", "127.0.0.1:0", lambdaReads(t))...)
	processor := start(t, cancel, "processor", as("processor", "--device", recordedNetwork(t, "1ms:32"), "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--listen", "127.0.0.1:0")...)
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{broker.Addr},
		SASL: &kafka.SASLConfig{Mechanism: kafka.MechanismPlain, User: "lims", Password: users["lims"]}})
	require.NoError(t, err)
	defer client.Close()
	follow(ctx, t, client, nil)
	ingest.ended(t)
	processor.stop(t)

	res = pore(t, as("operator", "replay", "--stage", "annotate", "--from", "start", "--dry-run")...)
	require.Zero(t, res.code, res.stderr)
	res = pore(t, as("operator", "dlq", "ls")...)
	require.Zero(t, res.code, res.stderr)
	res = pore(t, as("lims", "dlq", "ls")...)
	require.Equal(t, 1, res.code)
	require.Contains(t, res.stderr, "give the user the rights that pore acls --role ROLE lists")
}
