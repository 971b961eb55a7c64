package kafka

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/streamtest"
)

// A process is killed and started again, with the settings of production, alone in its group or beside another. With a
// file of memberships its records are handled within seconds, without it not before the session of the dead is over.
func TestARestartedProcessNeedNotWaitForItsSession(t *testing.T) {
	for _, tt := range []struct {
		name        string
		file, other bool
	}{
		{"alone", true, false},
		{"beside another", true, true},
		{"alone, without a file", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memberships")
			synctest.Test(t, func(t *testing.T) {
				var network kfake.VirtualNetwork
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(network.Listen)), kfake.SeedTopics(2, "in", "out"))
				require.NoError(t, err)
				defer cluster.Close()
				j := newJournal()
				member := func(dial func(context.Context, string, string) (net.Conn, error), memberships *Memberships) (*Client, *Producer, *running) {
					c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: dial})
					require.NoError(t, err)
					p, err := NewProducer(t.Context(), c, ProducerConfig{})
					require.NoError(t, err)
					return c, p, startMember(t, c, GroupConfig{Group: "g", Topics: []string{"in"}, Producer: p, Memberships: memberships,
						NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
							return &echo{journal: j, life: j.begin(topic, partition), out: "out"}, nil
						}})
				}
				open := func() *Memberships {
					if !tt.file {
						return nil
					}
					m, err := OpenMemberships(path)
					require.NoError(t, err)
					return m
				}
				killed := &cuttable{network: &network}
				before := open()
				ca, pa, a := member(killed.dial, before)
				defer ca.Close()
				members := 1
				if tt.other {
					cc, pc, c := member(network.DialContext, nil)
					defer cc.Close()
					defer func() {
						c.end(t)
						require.NoError(t, pc.Close(t.Context()))
					}()
					members = 2
				}
				_, err = cluster.WaitGroupStable(t.Context(), "g", members)
				require.NoError(t, err)
				time.Sleep(time.Second) // virtual
				killed.cut(true)
				if before != nil {
					require.NoError(t, before.Close()) // as the kernel does it
				}

				began := time.Now()
				after := open()
				cb, pb, b := member(network.DialContext, after)
				defer cb.Close()
				for i := range 20 {
					put(t, pb, "in", int32(i%2), fmt.Sprint(i))
				}
				streamtest.Eventually(t.Context(), t, "records handled", func() bool { return j.distinct() == 20 })
				if took := time.Since(began); tt.file {
					assert.Less(t, took, 5*time.Second)
				} else {
					assert.Greater(t, took, 20*time.Second, "the test kills nobody")
				}
				b.end(t)
				killed.cut(false)
				a.end(t)
				require.NoError(t, pa.Close(t.Context()))
				require.NoError(t, pb.Close(t.Context()))
				if after != nil {
					require.NoError(t, after.Close())
					text, err := os.ReadFile(path)
					require.NoError(t, err)
					assert.Equal(t, membershipsTitle+"\n", string(text), "nobody is left in the group")
				}
			})
		})
	}
}

func TestMembershipsAreOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memberships")
	m, err := OpenMemberships(path)
	require.NoError(t, err)
	require.NoError(t, m.joined("porestream-align", "porestream-1"))
	require.NoError(t, m.joined("a \"group\"\n", "x\ty"))
	_, err = OpenMemberships(path)
	require.ErrorContains(t, err, "another process uses it: give each processor a file of its own")
	require.NoError(t, m.Close())

	m, err = OpenMemberships(path)
	require.NoError(t, err)
	assert.Equal(t, "porestream-1", m.leftBehind("porestream-align"))
	assert.Equal(t, "x\ty", m.leftBehind("a \"group\"\n"))
	assert.Empty(t, m.leftBehind("porestream-variant"))
	// What isn't evicted yet is still known after one more crash, unless the group has been joined by then.
	require.NoError(t, m.joined("porestream-align", "porestream-2"))
	require.NoError(t, m.Close())
	m, err = OpenMemberships(path)
	require.NoError(t, err)
	assert.Equal(t, "porestream-2", m.leftBehind("porestream-align"))
	assert.Equal(t, "x\ty", m.leftBehind("a \"group\"\n"))
	require.NoError(t, m.evicted("porestream-align"))
	require.NoError(t, m.evicted("a \"group\"\n"))
	require.NoError(t, m.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "porestream memberships 1\n", string(text))
}

func TestMembershipsRefuseOtherFiles(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{"brokers=localhost:9092\n", `it begins with "brokers=localhost:9092", not "porestream memberships 1": name a file that is not there yet`},
		{strings.Repeat("x", 1<<17), "it begins with"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		_, err := OpenMemberships(path)
		require.ErrorContains(t, err, tt.says)
		require.ErrorContains(t, err, path)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, tt.text, string(text), "a file that is something else stays")
	}
	_, err := OpenMemberships(t.TempDir())
	require.ErrorContains(t, err, "opening the file of memberships")

	// A lock that can't be had is not one that another has.
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.ErrorContains(t, (&Memberships{file: f}).open(), "locking it: ")
}

// A processor starts whatever a crash has made of its file: what can't be read costs the end of a session.
func TestMembershipsOfACrash(t *testing.T) {
	before := membershipsTitle + "\n\"porestream-align\" \"porestream-1\"\n\"porestream-variant\" \"porestream-2\"\n"
	after := membershipsTitle + "\n\"porestream-align\" \"porestream-3\"\n"
	for _, tt := range []struct {
		text string
		want map[string]string
	}{
		{strings.Repeat("\x00", len(before)), map[string]string{}},
		{after + "\x00\x00\x00", map[string]string{"porestream-align": "porestream-3"}},
		{after + before[len(after)+5:], map[string]string{"porestream-align": "porestream-3"}},
		{membershipsTitle + "\ngroup member\n\"g\" \"\"\n\"h\" \"m\"\n", map[string]string{"h": "m"}},
		{before[:len(before)-3], map[string]string{"porestream-align": "porestream-1"}},
	} {
		path := filepath.Join(t.TempDir(), "memberships")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		m, err := OpenMemberships(path)
		require.NoError(t, err, "%q", tt.text)
		assert.Equal(t, tt.want, m.left, "%q", tt.text)
		require.NoError(t, m.Close())
	}
}

func FuzzMemberships(f *testing.F) {
	f.Add([]byte(membershipsTitle + "\n\"porestream-align\" \"porestream-4c2f\"\n\"porestream-variant\" \"porestream-77\"\n"))
	f.Add([]byte(membershipsTitle + "\n\"g\" \"m\"\n\"tor"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		members, err := parseMemberships(text)
		if err != nil {
			return
		}
		again, err := parseMemberships(formatMemberships(members))
		require.NoError(t, err)
		assert.Equal(t, members, again)
	})
}
