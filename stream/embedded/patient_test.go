package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/streamtest"
)

const sessionTimeout = 6 * time.Second // Apache Kafka's least

// joiner is a member of a group, request by request.
type joiner struct {
	t          *testing.T
	client     *kgo.Client
	group, id  string
	generation int32
}

func newJoiner(t *testing.T, group string, opts ...kgo.Opt) *joiner {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &joiner{t: t, client: client, group: group}
}

// join asks for a place in the next generation, as kafka-go does, with the
// version of the request that needs no id first.
func (j *joiner) join() (*kmsg.JoinGroupResponse, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = j.group, j.id, "test"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(sessionTimeout.Milliseconds()), 30_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "any"
	req.Protocols = append(req.Protocols, protocol)
	resp, err := req.RequestWith(j.t.Context(), j.client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		if errors.Is(err, kerr.MemberIDRequired) {
			j.id = resp.MemberID
			return j.join()
		}
		return nil, err
	}
	j.id, j.generation = resp.MemberID, resp.Generation
	return resp, nil
}

// lead joins and gives every member the same.
func (j *joiner) lead() int {
	joined, err := j.join()
	require.NoError(j.t, err)
	require.Equal(j.t, joined.LeaderID, j.id)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = j.group, j.id, j.generation
	req.ProtocolType, req.Protocol = joined.ProtocolType, joined.Protocol
	for _, m := range joined.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.MemberID, []byte{0}
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := req.RequestWith(j.t.Context(), j.client)
	require.NoError(j.t, err)
	require.NoError(j.t, kerr.ErrorForCode(resp.ErrorCode))
	return len(joined.Members)
}

// beat sends the coordinator the member's heartbeat, and reports whether
// another generation is due.
func (j *joiner) beat() (rebalance bool) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = j.group, j.id, j.generation
	resp, err := req.RequestWith(j.t.Context(), j.client)
	require.NoError(j.t, err)
	err = kerr.ErrorForCode(resp.ErrorCode)
	if errors.Is(err, kerr.RebalanceInProgress) {
		return true
	}
	require.NoError(j.t, err)
	return false
}

func (j *joiner) beatUntilRebalance(atMost time.Duration) bool {
	for began := time.Now(); time.Since(began) < atMost; time.Sleep(500 * time.Millisecond) {
		if j.beat() {
			return true
		}
	}
	return false
}

// dieJoining makes a second member die while it waits for the first to join
// again, and reports whether it is evicted from the generation that it is then
// part of.
func dieJoining(t *testing.T, group string, within time.Duration, opts ...kgo.Opt) bool {
	leader := newJoiner(t, group, opts...)
	require.Equal(t, 1, leader.lead())
	doomed := newJoiner(t, group, opts...)
	var joining sync.WaitGroup
	joining.Go(func() { _, _ = doomed.join() })
	require.True(t, leader.beatUntilRebalance(10*time.Second), "it joins")
	doomed.client.Close()
	joining.Wait()
	time.Sleep(100 * time.Millisecond) // what remains of it arrives
	require.Equal(t, 2, leader.lead(), "its join was heard")
	evicted := leader.beatUntilRebalance(within)
	if evicted {
		require.Equal(t, 1, leader.lead())
	}
	return evicted
}

func TestMemberThatDiesWhileJoiningIsEvicted(t *testing.T) {
	inBubble := func(t *testing.T, around func(embedded.Listen) embedded.Listen, test func(t *testing.T, opts ...kgo.Opt)) {
		synctest.Test(t, func(t *testing.T) {
			var network kfake.VirtualNetwork
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(around(network.Listen)))
			require.NoError(t, err)
			t.Cleanup(cluster.Close)
			test(t, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(network.DialContext))
		})
	}
	t.Run("kfake", func(t *testing.T) {
		inBubble(t, embedded.Patient, func(t *testing.T, opts ...kgo.Opt) {
			for i := range 50 {
				require.True(t, dieJoining(t, fmt.Sprint("g", i), sessionTimeout+time.Second, opts...))
			}
		})
	})
	t.Run("kfake by itself", func(t *testing.T) {
		asIs := func(l embedded.Listen) embedded.Listen { return l }
		inBubble(t, asIs, func(t *testing.T, opts ...kgo.Opt) {
			// Whether it notices a connection's end is left to chance.
			for i := range 50 {
				if !dieJoining(t, fmt.Sprint("g", i), time.Minute, opts...) {
					return
				}
			}
			t.Error("kfake has been mended: Patient is of no use any more")
		})
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		b, err := embedded.Start(embedded.Config{DataDir: t.TempDir() + "/broker"})
		require.NoError(t, err)
		defer b.Close()
		assert.True(t, dieJoining(t, "g", 2*sessionTimeout, kgo.SeedBrokers(b.Addr())))
	})
	t.Run("apache", func(t *testing.T) {
		if os.Getenv(streamtest.LibVariable) == "" {
			t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
		}
		t.Parallel()
		a, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{Lib: os.Getenv(streamtest.LibVariable), Dir: t.TempDir()})
		require.NoError(t, err)
		defer a.Stop()
		assert.True(t, dieJoining(t, "dies joining", 2*sessionTimeout, kgo.SeedBrokers(a.Addr)))
		assert.True(t, leavesSyncing(t, "leaves syncing", kgo.SeedBrokers(a.Addr)), "the coordinator does not wait for who has left")
	})
}

// leavesSyncing makes a member leave while it waits for its assignment, and
// reports whether the other one, when it joins again, is alone at once.
func leavesSyncing(t *testing.T, group string, opts ...kgo.Opt) bool {
	leader, leaving := newJoiner(t, group, opts...), newJoiner(t, group, opts...)
	require.Equal(t, 1, leader.lead())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = leaving.join() })
	require.True(t, leader.beatUntilRebalance(10*time.Second))
	_, err := leader.join()
	require.NoError(t, err)
	waiting.Wait()
	waiting.Go(func() {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = group, leaving.id, leaving.generation
		req.ProtocolType, req.Protocol = kmsg.StringPtr("test"), kmsg.StringPtr("any")
		_, _ = req.RequestWith(t.Context(), leaving.client)
	})
	time.Sleep(100 * time.Millisecond) // it arrives
	leave := kmsg.NewPtrLeaveGroupRequest()
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = leaving.id
	leave.Group, leave.Members = group, append(leave.Members, member)
	_, err = leave.RequestWith(t.Context(), leader.client)
	require.NoError(t, err)
	joined := make(chan struct{})
	waiting.Go(func() {
		if _, err := leader.join(); err == nil {
			close(joined)
		}
	})
	atOnce := false
	select {
	case <-joined:
		atOnce = true
	case <-time.After(sessionTimeout / 2):
	}
	leaving.client.Close()
	leader.client.Close()
	waiting.Wait()
	return atOnce
}

// kfake waits for such a member, until the rebalance timeout has passed since
// the last join. Members of groups that must not wait for ever need a rebalance
// timeout below the pauses between their joins.
func TestKfakeWaitsForMemberThatLeftSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(embedded.Patient(network.Listen)))
		require.NoError(t, err)
		t.Cleanup(cluster.Close)
		assert.False(t, leavesSyncing(t, "g", kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(network.DialContext)), "kfake has been mended")
	})
}
