package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/stream/streampb"
)

// TestMurmur2 holds the values of the Java client's own test (UtilsTest).
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestPartitionFor(t *testing.T) {
	// 'foobar' is negative: the sign bit is cleared, not the absolute value taken.
	if got, want := PartitionFor([]byte("foobar"), 1000), int32((-790332482&0x7fffffff)%1000); got != want {
		t.Errorf("partition of foobar: %d, want %d", got, want)
	}
	counts := make([]int, 7)
	for i := range 7000 {
		p := PartitionFor(SignalKey("run", uint32(i)), 7)
		counts[p]++ // panics outside of [0, 7)
	}
	for p, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("partition %d has %d of 7000 channels", p, n)
		}
	}
	if PartitionFor(nil, 3) != PartitionFor([]byte{}, 3) {
		t.Error("nil and the empty key differ")
	}
}

// TestContigPartition: all alleles of a contig of a sample share a partition, and
// contigs and samples are spread.
func TestContigPartition(t *testing.T) {
	counts := make([]int, 6)
	for sample := range 60 {
		for contig := range 20 {
			counts[ContigPartition(fmt.Sprint("sample-", sample), fmt.Sprint("chr", contig+1), 6)]++
		}
	}
	for p, n := range counts {
		if n < 150 || n > 250 {
			t.Errorf("partition %d has %d of 1200 contigs", p, n)
		}
	}
	if got, want := ContigPartition("lambda", "J02459.1", 12), PartitionFor([]byte("lambda/J02459.1"), 12); got != want {
		t.Errorf("partition %d, want %d: records of older programs would lie elsewhere", got, want)
	}
}

func TestKeys(t *testing.T) {
	mk := &streampb.Marker{Run: &streampb.Run{Id: "run-1"}, Source: 12, Sources: 16}
	for _, c := range []struct {
		got    []byte
		want   string
		marker bool
	}{
		{SignalKey("run-1", 4294967295), "run-1/4294967295", false},
		{RegionKey("lambda", "J02459.1", 7), "lambda/J02459.1/7", false},
		{CoverageKey("lambda", "J02459.1", 36_864), "lambda/J02459.1/36864", false},
		{AlleleKey("lambda", "ga4gh:VA.x"), "lambda/ga4gh:VA.x", false},
		{AlleleKey("run", "ga4gh:VA.x"), "run/ga4gh:VA.x", false},
		{MarkerKey(mk, false), "run\x00run-1/start/12", true},
		{MarkerKey(mk, true), "run\x00run-1/end/12", true},
	} {
		if string(c.got) != c.want {
			t.Errorf("key %q, want %q", c.got, c.want)
		}
		if IsMarkerKey(c.got) != c.marker {
			t.Errorf("IsMarkerKey(%q) = %v", c.got, !c.marker)
		}
	}
	if IsMarkerKey(nil) {
		t.Error("no key is no marker's key")
	}
}

func TestSettings(t *testing.T) {
	topics := NewTopics("lab-")
	byName := make(map[string]TopicSettings)
	for _, s := range slices.Concat(topics.Settings(6), topics.WatchSettings(6), topics.DecisionSettings(6), topics.BasecallSettings(6)) {
		byName[s.Name] = s
	}
	for _, c := range []struct {
		name, policy string
		partitions   int
	}{
		{"lab-runs", "compact", 1},
		{"lab-cursors", "compact", 1},
		{"lab-state", "compact", 6},
		{"lab-signal", "delete", 6},
		{"lab-called", "delete", 6},
		{"lab-reads", "delete", 6},
		{"lab-calls", "delete", 6},
		{"lab-variants", "compact", 6},
		{"lab-dlq", "delete", 6},
		{"lab-watch", "delete", 6},
		{"lab-alerts", "compact", 6},
		{"lab-decisions", "delete", 6},
		{"lab-basecalls", "delete", 6},
		{"lab-status", "compact,delete", 1},
	} {
		s, ok := byName[c.name]
		if !ok || s.Partitions != c.partitions || s.Config["cleanup.policy"] != c.policy {
			t.Errorf("%s: %+v, want %d partitions and cleanup.policy %s", c.name, s, c.partitions, c.policy)
		}
		if _, limited := s.Config["retention.ms"]; limited != strings.Contains(c.policy, "delete") {
			t.Errorf("%s: retention %v with policy %s", c.name, s.Config["retention.ms"], c.policy)
		}
		delete(byName, c.name)
	}
	for name := range byName {
		t.Errorf("unexpected topic %s", name)
	}
}

func ExamplePartitionFor() {
	fmt.Println(PartitionFor(SignalKey("run-1", 417), 12))
	// Output: 2
}
