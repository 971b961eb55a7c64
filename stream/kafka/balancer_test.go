package kafka

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streamtest"
)

// crew is a group as its leader sees it: members with what each had.
type crew struct {
	members    []kafka.GroupMember
	partitions []kafka.Partition
}

func (c *crew) join(id string, claim claim, topics ...string) {
	claim.instance = "instance-" + id
	c.members = append(c.members, kafka.GroupMember{ID: id, Topics: topics, UserData: claim.encode()})
}

func (c *crew) add(topic string, n int) {
	for p := range n {
		c.partitions = append(c.partitions, kafka.Partition{Topic: topic, ID: p})
	}
}

func (c *crew) assign() kafka.GroupMemberAssignments {
	return new(StickyBalancer).AssignGroups(c.members, c.partitions)
}

// owned is what members of an assignment would claim.
func owned(assignment map[string][]int) map[string][]int32 {
	out := make(map[string][]int32)
	for topic, partitions := range assignment {
		for _, p := range partitions {
			out[topic] = append(out[topic], int32(p))
		}
	}
	return out
}

// requireDealt checks that every partition has one owner who subscribes to it,
// and that shares of a topic differ by one at most.
func requireDealt(t *testing.T, c *crew, got kafka.GroupMemberAssignments) {
	t.Helper()
	for _, m := range c.members {
		require.Contains(t, got, m.ID)
		for topic := range got[m.ID] {
			require.Contains(t, m.Topics, topic)
		}
	}
	byTopic := make(map[string][]int)
	for _, p := range c.partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.ID)
	}
	for topic, partitions := range byTopic {
		var dealt, sizes []int
		for _, m := range c.members {
			if slices.Contains(m.Topics, topic) {
				dealt = append(dealt, got[m.ID][topic]...)
				sizes = append(sizes, len(got[m.ID][topic]))
			}
		}
		if len(sizes) == 0 {
			continue
		}
		require.ElementsMatch(t, partitions, dealt)
		require.LessOrEqual(t, slices.Max(sizes)-slices.Min(sizes), 1, "topic %s: %v", topic, sizes)
	}
}

func TestStickyBalancerDeals(t *testing.T) {
	has := func(generation int32, partitions ...int32) claim {
		return claim{generation: generation, owned: map[string][]int32{"in": partitions}}
	}
	warm := func(c claim, bytes int64) claim {
		c.warmBytes = bytes
		return c
	}
	for _, tt := range []struct {
		name       string
		partitions int
		claims     []claim // of a, b, c ...
		want       [][]int
	}{
		{"nobody had any", 5, []claim{{}, {}}, [][]int{{0, 1, 2}, {3, 4}}},
		{"as before", 5, []claim{has(1, 1, 3), has(1, 0, 2, 4)}, [][]int{{1, 3}, {0, 2, 4}}},
		{"one joins", 6, []claim{has(1, 0, 2, 4), has(1, 1, 3, 5), {}}, [][]int{{0, 2}, {1, 3}, {4, 5}}},
		{"one leaves", 6, []claim{has(1, 0, 2), has(1, 1, 3)}, [][]int{{0, 2, 4}, {1, 3, 5}}},
		{"partitions are added", 6, []claim{has(1, 0, 1), has(1, 2, 3)}, [][]int{{0, 1, 4}, {2, 3, 5}}},
		{"partitions are gone", 2, []claim{has(1, 0, 1, 2), has(1, 3, 4)}, [][]int{{0}, {1}}},
		{"more members than partitions", 2, []claim{{}, has(1, 0, 1), {}}, [][]int{{1}, {0}, {}}},
		{"two say so: the later", 4, []claim{has(4, 0, 1), has(5, 0, 1), has(4, 2, 3)}, [][]int{{3}, {0, 1}, {2}}},
		{"the larger share goes to more state", 3, []claim{warm(has(1, 0, 1), 10), warm(has(1, 2), 500)}, [][]int{{0, 1}, {2}}},
		{"the larger share stays with more state", 5, []claim{warm(has(1, 0, 1, 2), 10), warm(has(2, 2, 3, 4), 500)}, [][]int{{0, 1}, {2, 3, 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &crew{}
			c.add("in", tt.partitions)
			for i, claim := range tt.claims {
				c.join(string(rune('a'+i)), claim, "in")
			}
			got := c.assign()
			requireDealt(t, c, got)
			for i, want := range tt.want {
				assert.ElementsMatch(t, want, got[string(rune('a'+i))]["in"], "member %c", 'a'+i)
			}
		})
	}
}

// TestStickyBalancerUnderstandsLittle: what can't be read is no claim.
func TestStickyBalancerUnderstandsLittle(t *testing.T) {
	sound := claim{instance: "x", generation: 3, owned: map[string][]int32{"in": {0, 1}}}.encode()
	newer := slices.Clone(sound)
	newer[0] = 2
	for name, data := range map[string][]byte{"none": nil, "cut": sound[:len(sound)-1], "newer": newer, "another's": []byte("consumer-1")} {
		c := &crew{}
		c.add("in", 4)
		c.join("a", claim{generation: 2, owned: map[string][]int32{"in": {1, 2}}}, "in")
		c.members = append(c.members, kafka.GroupMember{ID: "b", Topics: []string{"in"}, UserData: data})
		got := c.assign()
		requireDealt(t, c, got)
		assert.Equal(t, []int{1, 2}, got["a"]["in"], name)
	}
	c := &crew{}
	c.add("in", 4)
	c.members = []kafka.GroupMember{{ID: "b", Topics: []string{"in"}, UserData: append(sound, "appended later"...)}, {ID: "a", Topics: []string{"in"}}}
	assert.Equal(t, []int{0, 1}, c.assign()["b"]["in"])
}

// leastMoved tries all balanced assignments of n partitions to k members and
// returns how few of those that somebody had must change hands.
func leastMoved(n, k int, had []int) int {
	best := n
	sizes := make([]int, k)
	var try func(p, moved int)
	try = func(p, moved int) {
		if moved >= best {
			return
		}
		if p == n {
			if slices.Max(sizes)-slices.Min(sizes) <= 1 {
				best = moved
			}
			return
		}
		for m := range k {
			sizes[m]++
			if had[p] >= 0 && had[p] != m {
				try(p+1, moved+1)
			} else {
				try(p+1, moved)
			}
			sizes[m]--
		}
	}
	try(0, 0)
	return best
}

// TestStickyBalancerMovesTheLeast compares with all assignments there are.
func TestStickyBalancerMovesTheLeast(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 1))
	for range 3000 {
		n, k := rnd.IntN(7), 1+rnd.IntN(4)
		had := make([]int, n)
		claims := make([]claim, k)
		for i := range claims {
			claims[i] = claim{generation: 4, warmBytes: rnd.Int64N(3), owned: map[string][]int32{"in": nil}}
		}
		for p := range had {
			had[p] = rnd.IntN(k+1) - 1
			if had[p] >= 0 {
				claims[had[p]].owned["in"] = append(claims[had[p]].owned["in"], int32(p))
			}
		}
		c := &crew{}
		c.add("in", n)
		for i, cl := range claims {
			c.join(fmt.Sprint(i), cl, "in")
		}
		got := c.assign()
		requireDealt(t, c, got)
		moved := 0
		for p, m := range had {
			if m >= 0 && !slices.Contains(got[fmt.Sprint(m)]["in"], p) {
				moved++
			}
		}
		require.Equal(t, leastMoved(n, k, had), moved, "%d partitions, %d members, had %v, got %v", n, k, had, got)
		require.Equal(t, got, c.shuffled(rnd).assign(), "in whatever order they are told")
	}
}

func (c *crew) shuffled(rnd *rand.Rand) *crew {
	s := &crew{members: slices.Clone(c.members), partitions: slices.Clone(c.partitions)}
	rnd.Shuffle(len(s.members), func(i, j int) { s.members[i], s.members[j] = s.members[j], s.members[i] })
	rnd.Shuffle(len(s.partitions), func(i, j int) { s.partitions[i], s.partitions[j] = s.partitions[j], s.partitions[i] })
	return s
}

// TestStickyBalancerOverALife: members of several topics come and go; no
// partition moves while the members stay the same, and a member that joins takes
// its share and no more.
func TestStickyBalancerOverALife(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		topics := map[string]int{"a": 1 + rnd.IntN(24), "b": 1 + rnd.IntN(24), "c": 12}
		names := []string{"a", "b", "c"}
		had := make(map[string]map[string][]int)
		next := 0
		for generation := range int32(30) {
			before := len(had)
			joined, left := "", ""
			switch n := rnd.IntN(3); {
			case before == 0 || n == 0:
				joined = fmt.Sprint("m", next)
				next++
				had[joined] = nil
			case n == 1 && before > 1:
				members := slices.Sorted(maps.Keys(had))
				left = members[rnd.IntN(len(members))]
				delete(had, left)
			}
			c := &crew{}
			for _, topic := range names {
				c.add(topic, topics[topic])
			}
			for id, assignment := range had {
				c.join(id, claim{generation: generation, owned: owned(assignment)}, names...)
			}
			got := c.shuffled(rnd).assign()
			requireDealt(t, c, got)
			for _, topic := range names {
				moved := 0
				for id := range had {
					for _, p := range had[id][topic] {
						if !slices.Contains(got[id][topic], p) {
							moved++
						}
					}
				}
				switch {
				case joined != "" && before > 0:
					require.LessOrEqual(t, moved, (topics[topic]+before)/(before+1))
				default:
					require.Zero(t, moved, "topic %s: joined %q left %q", topic, joined, left)
				}
			}
			for id := range had {
				had[id] = got[id]
			}
		}
	}
}

func TestClaimGolden(t *testing.T) {
	c := claim{instance: "pod-1", generation: 300, warmBytes: 1 << 20, owned: map[string][]int32{"calls": {}, "reads": {0, 2, 300}}}
	want := []byte("\x01\x05pod-1\xac\x02\x80\x80\x40\x02\x05calls\x00\x05reads\x03\x00\x02\xaa\x02")
	require.Equal(t, want, c.encode())
	got, err := decodeClaim(want)
	require.NoError(t, err)
	require.Equal(t, c, got)
}

func FuzzClaim(f *testing.F) {
	f.Add(claim{}.encode())
	f.Add(claim{instance: "i", generation: 7, warmBytes: 8, owned: map[string][]int32{"a": {1, 2, 9}, "b": {0}}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeClaim(b)
		if err != nil {
			return
		}
		again, err := decodeClaim(c.encode())
		if err != nil || !assert.ObjectsAreEqual(c, again) {
			t.Errorf("%+v reads again as %+v, %v", c, again, err)
		}
		crew := crew{members: []kafka.GroupMember{{ID: "a", Topics: []string{"in"}, UserData: b}, {ID: "b", Topics: []string{"in"}, UserData: bytes.Clone(b)}}}
		crew.add("in", 5)
		requireDealt(t, &crew, crew.assign())
	})
}

// TestStickyBalancerInAGroup lets members join a real group, one of them an older
// program that knows only how to deal by range.
func TestStickyBalancerInAGroup(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 6)
		join := func(balancers ...kafka.GroupBalancer) *kafka.ConsumerGroup {
			g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
				ID: topic, Brokers: []string{addr}, Topics: []string{topic}, GroupBalancers: balancers,
				HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second,
				JoinGroupBackoff: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = g.Close() })
			return g
		}
		// generation waits for one in which a member has so many partitions.
		generation := func(g *kafka.ConsumerGroup, b *StickyBalancer, n int) []int32 {
			for {
				gen, err := g.Next(t.Context())
				if err != nil {
					require.NoError(t, t.Context().Err())
					continue // the coordinator is cold
				}
				var partitions []int32
				for _, a := range gen.Assignments[topic] {
					partitions = append(partitions, int32(a.ID))
				}
				slices.Sort(partitions)
				if b != nil {
					b.Claim(gen.ID, map[string][]int32{topic: partitions}, 0)
				}
				gen.Start(func(ctx context.Context) { <-ctx.Done() })
				if len(partitions) == n {
					return partitions
				}
			}
		}
		first, second := NewStickyBalancer(), NewStickyBalancer()
		a := join(first, kafka.RangeGroupBalancer{})
		require.Len(t, generation(a, first, 6), 6)
		b := join(second, kafka.RangeGroupBalancer{})
		kept, taken := generation(a, first, 3), generation(b, second, 3)
		assert.Equal(t, []int32{0, 1, 2}, kept)
		assert.Equal(t, []int32{3, 4, 5}, taken)

		old := join(kafka.RangeGroupBalancer{})
		generation(a, first, 2)
		generation(b, second, 2)
		generation(old, nil, 2)
	})
}
