package kafka

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go"
)

// StickyBalancer assigns partitions such that as few as possible change hands: a
// partition's new owner has to restore its state first.
//
// Problem: groups are eager, so every join and leave stops all members and deals
// out all partitions anew. Range and round robin deal by the order of member
// ids, which are random.
//
// Strategy: every member states the partitions that it had. The leader takes
// away only what a member has above its share, and gives partitions without an
// owner to members below theirs. Shares of a topic differ by one at most. Where
// several members could get the larger share, it goes to the one that keeps more
// partitions by it, then to the one with more state in memory for each partition
// it had, then to the one with fewer partitions of other topics.
//
// Consequences: the number of partitions that change hands is the least that
// balanced shares allow. The result depends on what the members state, not on
// their order. A member that states nothing, or nothing that can be read, as an
// older or newer program may, counts as one that had nothing. Members that don't
// know this protocol agree on another one with us if both offer one; see
// [NewStickyBalancer].
//
// It is safe for concurrent use.
type StickyBalancer struct {
	instance string

	mu    sync.Mutex
	claim claim
}

var _ kafka.GroupBalancer = (*StickyBalancer)(nil)

// stickyProtocol names the protocol. Another way to assign needs no other name,
// since only the leader assigns; user data that can't be read by others does.
const stickyProtocol = "porestream-sticky"

// NewStickyBalancer returns the balancer of a member that has nothing yet. It is
// to be offered before [kafka.RangeGroupBalancer], which members of a group that
// is being updated have in common.
func NewStickyBalancer() *StickyBalancer {
	return &StickyBalancer{instance: rand.Text()}
}

// Claim notes what this member has in a generation: the partitions of each
// topic, and the bytes of state that it keeps for them. It is what the member
// asks to keep when it joins again.
func (b *StickyBalancer) Claim(generation int32, owned map[string][]int32, warmBytes int64) {
	c := claim{instance: b.instance, generation: generation, warmBytes: warmBytes, owned: make(map[string][]int32, len(owned))}
	for topic, partitions := range owned {
		c.owned[topic] = slices.Compact(slices.Sorted(slices.Values(partitions)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claim = c
}

// ProtocolName implements [kafka.GroupBalancer].
func (b *StickyBalancer) ProtocolName() string { return stickyProtocol }

// UserData implements [kafka.GroupBalancer].
func (b *StickyBalancer) UserData() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claim.encode(), nil
}

// AssignGroups implements [kafka.GroupBalancer].
func (b *StickyBalancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	out := make(kafka.GroupMemberAssignments, len(members))
	all := make([]*sharer, len(members))
	for i, m := range members {
		out[m.ID] = make(map[string][]int)
		// What can't be read is no claim; see the type's comment.
		c, _ := decodeClaim(m.UserData)
		all[i] = &sharer{id: m.ID, topics: m.Topics, claim: c}
	}
	slices.SortFunc(all, func(a, b *sharer) int {
		return cmp.Or(cmp.Compare(a.claim.instance, b.claim.instance), cmp.Compare(a.id, b.id))
	})
	byTopic := make(map[string][]int32)
	for _, p := range partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], int32(p.ID))
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		var sharers []*sharer
		for _, s := range all {
			if slices.Contains(s.topics, topic) {
				s.begin(topic)
				sharers = append(sharers, s)
			}
		}
		if len(sharers) == 0 {
			continue
		}
		slices.Sort(byTopic[topic])
		share(slices.Compact(byTopic[topic]), topic, sharers)
		for _, s := range sharers {
			for _, p := range s.kept {
				out[s.id][topic] = append(out[s.id][topic], int(p))
			}
		}
	}
	return out
}

// sharer is a member while partitions are dealt out.
type sharer struct {
	id     string
	topics []string
	claim  claim
	total  int // partitions of topics before

	// Of the topic that is dealt out:
	kept  []int32 // what it had, then what it gets
	quota int
	had   int // how many it claims, of all topics
}

func (s *sharer) begin(string) {
	s.kept, s.quota = nil, 0
	s.had = 0
	for _, partitions := range s.claim.owned {
		s.had += len(partitions)
	}
}

// warmth is the state that the member keeps for each partition it had.
func (s *sharer) warmth() int64 { return s.claim.warmBytes / int64(max(s.had, 1)) }

// share deals out the partitions of one topic, which ascend.
func share(partitions []int32, topic string, sharers []*sharer) {
	var spare []int32
	for _, p := range partitions {
		if s := claimant(p, topic, sharers); s != nil {
			s.kept = append(s.kept, p)
		} else {
			spare = append(spare, p)
		}
	}
	// Those who would keep more by the larger share are first in line for it.
	least := len(partitions) / len(sharers)
	line := slices.Clone(sharers)
	slices.SortStableFunc(line, func(a, b *sharer) int {
		return cmp.Or(
			cmp.Compare(min(len(b.kept), least+1), min(len(a.kept), least+1)),
			cmp.Compare(b.warmth(), a.warmth()),
			cmp.Compare(a.total, b.total),
		)
	})
	larger := len(partitions) % len(sharers)
	for i, s := range line {
		s.quota = least
		if i < larger {
			s.quota++
		}
		if len(s.kept) > s.quota {
			spare = append(spare, s.kept[s.quota:]...)
			s.kept = s.kept[:s.quota]
		}
	}
	slices.Sort(spare)
	for _, s := range sharers {
		n := s.quota - len(s.kept)
		s.kept = append(s.kept, spare[:n]...)
		spare = spare[n:]
		slices.Sort(s.kept)
		s.total += len(s.kept)
	}
}

// claimant is the member that had a partition: of several that say so, the one
// that was in the latest generation. nil if there is none.
func claimant(p int32, topic string, sharers []*sharer) *sharer {
	var found *sharer
	for _, s := range sharers {
		if _, owned := slices.BinarySearch(s.claim.owned[topic], p); !owned {
			continue
		}
		if found == nil || s.claim.generation > found.claim.generation {
			found = s
		}
	}
	return found
}

// claim is what a member states about itself when it joins.
type claim struct {
	// instance is the same for as long as the process is a member, while member
	// ids change.
	instance string
	// generation is the one in which it had the partitions.
	generation int32
	warmBytes  int64
	owned      map[string][]int32 // ascending
}

const (
	claimVersion = 1
	// Bounds of what a member may state.
	maxClaimName       = 512
	maxClaimTopics     = 1000
	maxClaimPartitions = 1 << 20
)

// encode writes the version, 1, and then, numbers being unsigned varints and
// strings having their length before them: instance, generation, bytes of state,
// number of topics, and for each, ordered by name, its name, number of partitions
// and the first partition, then differences. A later program may append to it; a
// change that older ones would misread gets another version.
func (c claim) encode() []byte {
	b := []byte{claimVersion}
	appendName := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	appendName(c.instance)
	b = binary.AppendUvarint(b, uint64(c.generation))
	b = binary.AppendUvarint(b, uint64(c.warmBytes))
	b = binary.AppendUvarint(b, uint64(len(c.owned)))
	for _, topic := range slices.Sorted(maps.Keys(c.owned)) {
		appendName(topic)
		b = binary.AppendUvarint(b, uint64(len(c.owned[topic])))
		last := int32(0)
		for _, p := range c.owned[topic] {
			b = binary.AppendUvarint(b, uint64(p-last))
			last = p
		}
	}
	return b
}

var errClaim = errors.New("user data is cut off or out of bounds")

// decodeClaim reads what encode has written. The zero claim comes with an error.
func decodeClaim(b []byte) (claim, error) {
	if len(b) == 0 {
		return claim{}, errClaim
	}
	if b[0] != claimVersion {
		return claim{}, fmt.Errorf("user data of version %d", b[0])
	}
	b = b[1:]
	bad := false
	number := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if bad = bad || n <= 0 || v > limit; bad {
			return 0
		}
		b = b[n:]
		return v
	}
	name := func() string {
		n := int(number(maxClaimName))
		if bad = bad || n > len(b); bad {
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	c := claim{instance: name(), generation: int32(number(1<<31 - 1)), warmBytes: int64(number(1<<63 - 1))}
	topics := int(number(maxClaimTopics))
	c.owned = make(map[string][]int32, min(topics, len(b)))
	for range topics {
		topic := name()
		n := int(number(maxClaimPartitions))
		if bad = bad || n > len(b); bad {
			break
		}
		partitions := make([]int32, n)
		last := uint64(0)
		for i := range partitions {
			delta := number(1<<31 - 1)
			if last += delta; i > 0 && delta == 0 || last > 1<<31-1 {
				bad = true
				break
			}
			partitions[i] = int32(last)
		}
		c.owned[topic] = partitions
	}
	if bad {
		return claim{}, errClaim
	}
	return c, nil
}
