package ingest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func drain(s *Schedule) []ChunkPlan {
	var plans []ChunkPlan
	for {
		plan, ok := s.Next()
		if !ok {
			return plans
		}
		plans = append(plans, plan)
	}
}

func TestSchedule(t *testing.T) {
	read := func(channel uint32, start uint64, samples int) PlannedRead {
		return PlannedRead{Channel: channel, Start: start, Samples: samples}
	}
	for _, c := range []struct {
		name  string
		reads []PlannedRead
		want  []string // read/number [first,end) @ due
	}{
		{"one read in chunks", []PlannedRead{read(1, 0, 250)}, []string{"0/0 [0,100) @1s", "0/1 [100,200) @2s", "0/2 [200,250)! @2.5s"}},
		{"a whole number of chunks", []PlannedRead{read(1, 0, 200)}, []string{"0/0 [0,100) @1s", "0/1 [100,200)! @2s"}},
		{"no samples", []PlannedRead{read(1, 0, 0)}, []string{"0/0 [0,0)! @0s"}},
		{"time starts with the first read", []PlannedRead{read(1, 7050, 50), read(2, 7000, 50)}, []string{"1/0 [0,50)! @500ms", "0/0 [0,50)! @1s"}},
		{"equal times go by read", []PlannedRead{read(3, 0, 100), read(1, 0, 100), read(2, 0, 100)}, []string{"0/0 [0,100)! @1s", "1/0 [0,100)! @1s", "2/0 [0,100)! @1s"}},
		{"channels interleave", []PlannedRead{read(1, 0, 200), read(2, 50, 100)}, []string{"0/0 [0,100) @1s", "1/0 [0,100)! @1.5s", "0/1 [100,200)! @2s"}},
		{"a channel's reads in order", []PlannedRead{read(1, 500, 10), read(1, 0, 10)}, []string{"1/0 [0,10)! @100ms", "0/0 [0,10)! @5.1s"}},
		{"a busy channel", []PlannedRead{read(1, 0, 150), read(1, 100, 50)}, []string{"0/0 [0,100) @1s", "0/1 [100,150)! @1.5s", "1/0 [0,50)! @2s"}},
		{"no start times", []PlannedRead{read(1, 0, 50), read(1, 0, 50), read(1, 0, 50)}, []string{"0/0 [0,50)! @500ms", "1/0 [0,50)! @1s", "2/0 [0,50)! @1.5s"}},
		{"an absurd start", []PlannedRead{read(1, 0, 50), read(1, math.MaxUint64-100, 50)}, []string{"0/0 [0,50)! @500ms", "1/0 [0,50)! @2562047h47m16.854775807s"}},
		{"nothing", nil, nil},
	} {
		var got []string
		for _, p := range drain(NewSchedule(c.reads, []int{100}, time.Second)) {
			last := ""
			if p.Last {
				last = "!"
			}
			got = append(got, fmt.Sprintf("%d/%d [%d,%d)%s @%v", p.Read, p.Number, p.First, p.First+p.Count, last, p.Due))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// slowSchedule is the obvious reference: all chunks of all reads, sorted.
func slowSchedule(reads []PlannedRead, rates []int, chunk time.Duration) []ChunkPlan {
	offset := make(map[int]uint64)
	for _, r := range reads {
		if o, ok := offset[r.Run]; !ok || r.Start < o {
			offset[r.Run] = r.Start
		}
	}
	order := make([]int, len(reads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(reads[a].Start, reads[b].Start) })
	free := make(map[string]uint64)
	var plans []ChunkPlan
	for _, i := range order {
		r := reads[i]
		key := fmt.Sprint(r.Run, "/", r.Channel)
		start := max(r.Start-offset[r.Run], free[key])
		free[key] = start + uint64(r.Samples)
		size := max(1, int(chunk.Seconds()*float64(rates[r.Run])))
		for first, number := 0, 0; ; first, number = first+size, number+1 {
			count := min(size, r.Samples-first)
			// Exact to the nanosecond: these are small numbers.
			due := time.Duration((start + uint64(first+count)) * uint64(time.Second) / uint64(rates[r.Run]))
			plans = append(plans, ChunkPlan{Read: i, Number: number, First: first, Count: count, Last: first+count == r.Samples, Due: due})
			if first+count == r.Samples {
				break
			}
		}
	}
	slices.SortStableFunc(plans, func(a, b ChunkPlan) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Read, b.Read), cmp.Compare(a.Number, b.Number))
	})
	return plans
}

func TestScheduleProperties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 31))
		rates := []int{4000, 5000, 3012}[:1+rng.IntN(3)]
		reads := make([]PlannedRead, rng.IntN(60))
		for i := range reads {
			reads[i] = PlannedRead{
				Run: rng.IntN(len(rates)), Channel: uint32(rng.IntN(5)), Start: uint64(rng.IntN(100_000)), Samples: rng.IntN(30_000),
			}
			if rng.IntN(20) == 0 {
				reads[i].Samples = 0
			}
		}
		chunk := []time.Duration{time.Second, 100 * time.Millisecond, 1237 * time.Millisecond}[rng.IntN(3)]
		plans := drain(NewSchedule(reads, rates, chunk))

		next, number := make(map[int]int), make(map[int]int)
		finished := make(map[int]bool)
		busy := make(map[string]int) // the read that a channel is at
		var due time.Duration
		for _, p := range plans {
			r := reads[p.Read]
			key := fmt.Sprint(r.Run, "/", r.Channel)
			if at, ok := busy[key]; ok && at != p.Read {
				t.Fatalf("seed %d: read %d begins while its channel is at read %d", seed, p.Read, at)
			}
			busy[key] = p.Read
			if p.Last {
				delete(busy, key)
			}
			if finished[p.Read] || p.First != next[p.Read] || p.Number != number[p.Read] || p.Due < due || p.Count == 0 && r.Samples > 0 {
				t.Fatalf("seed %d: %+v after sample %d, chunk %d, %v", seed, p, next[p.Read], number[p.Read], due)
			}
			next[p.Read] += p.Count
			number[p.Read]++
			finished[p.Read] = p.Last
			due = p.Due
		}
		for i, r := range reads {
			if next[i] != r.Samples || !finished[i] {
				t.Fatalf("seed %d: %d of %d samples of read %d", seed, next[i], r.Samples, i)
			}
		}
		if want := slowSchedule(reads, rates, chunk); !sameButForTies(plans, want) {
			t.Fatalf("seed %d: schedule\n%v\nwant\n%v", seed, plans, want)
		}
	}
}

// sameButForTies compares schedules. A read that begins the moment another ends
// on its channel can't be due before it, so at one time the order of reads may
// differ from the reference's.
func sameButForTies(a, b []ChunkPlan) bool {
	order := func(p []ChunkPlan) []ChunkPlan {
		p = slices.Clone(p)
		slices.SortFunc(p, func(a, b ChunkPlan) int {
			return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Read, b.Read), cmp.Compare(a.Number, b.Number))
		})
		return p
	}
	return slices.IsSortedFunc(a, func(a, b ChunkPlan) int { return cmp.Compare(a.Due, b.Due) }) && slices.Equal(order(a), order(b))
}

func BenchmarkSchedule(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 32))
	reads := make([]PlannedRead, 5000)
	for i := range reads {
		reads[i] = PlannedRead{Channel: uint32(rng.IntN(512)), Start: uint64(rng.IntN(10_000_000)), Samples: 4000 + rng.IntN(60_000)}
	}
	chunks := 0
	for b.Loop() {
		chunks += len(drain(NewSchedule(reads, []int{4000}, time.Second)))
	}
	b.ReportMetric(float64(chunks)/b.Elapsed().Seconds(), "chunks/s")
}
