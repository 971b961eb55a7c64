package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestWriteStates(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	summary := snapshot.Summary{
		Format: stream.StateFormat{Stage: "variant", Version: 2, Fingerprint: "0123456789abcdef0123"},
		Offset: 50, Sections: 3, Bytes: 1000, Time: now.Add(-90 * time.Second),
	}
	damaged := snapshot.Summary{Offset: -1, Time: now.Add(-time.Hour), Fault: errors.New("damaged: checksum differs")}
	states := []operator.KeptState{{
		Source: snapshot.Source{Group: "porestream-variant", Topic: "reads", Partition: 4}, Committed: 60,
		Snapshots: []operator.KeptSnapshot{{Summary: summary}, {Summary: damaged, Unusable: damaged.Fault.Error()}},
	}}
	var tsv, json bytes.Buffer
	require.NoError(t, writeStates(&tsv, states, "tsv", now))
	assert.Equal(t, `GROUP	TOPIC	PARTITION	COMMITTED	OFFSET	AGE	BYTES	SECTIONS	VERSION	FINGERPRINT	STATUS
porestream-variant	reads	4	60	50	1m30s	1000	3	2	0123456789abcdef	usable
porestream-variant	reads	4	60	-1	1h0m0s	0	0	0		damaged: checksum differs
`, tsv.String())
	require.NoError(t, writeStates(&json, states[:1], "json", now))
	assert.Equal(t, `{"group":"porestream-variant","topic":"reads","partition":4,"committed":60,"offset":50,"time":"2026-11-21T11:58:30Z","bytes":1000,"sections":3,"stage":"variant","version":2,"fingerprint":"0123456789abcdef0123","usable":true}`,
		strings.SplitN(json.String(), "\n", 2)[0])
}

func TestStateAndResetCommands(t *testing.T) {
	addr := streamtest.Kfake(t).ListenAddrs()[0]
	run := func(args ...string) (string, error) {
		cmd := command()
		var out bytes.Buffer
		cmd.SetArgs(append(args, "--brokers", addr))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	_, err := run("reset", "--stage", "basecal")
	require.ErrorContains(t, err, `--stage "basecal": want one of align, annotate, basecall, methylate, variant, watch`)
	_, err = run("state", "ls", "--format", "xml")
	require.ErrorContains(t, err, `--format "xml": want tsv or json`)
	_, err = run("state", "ls")
	require.ErrorContains(t, err, "topic state does not exist")

	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(1), 1))
	out, err := run("state", "ls")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out, "\n"), "only the heading: %s", out)
	out, err = run("reset", "--stage", "variant", "--to-earliest")
	require.NoError(t, err)
	assert.Equal(t, "0 records with the state of 0 partitions were removed\nup to 0 records of topic reads will be processed again\n", out)
	out, err = run("reset", "--stage", "variant", "--dry-run")
	require.NoError(t, err)
	assert.Contains(t, out, "would be read again to restore the state")
}
