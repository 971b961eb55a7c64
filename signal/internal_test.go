package signal

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/porestream/porestream/signal/internal/uuid"
)

// TestEntrySize holds the promise of a small index: a PromethION flow cell makes
// ten million reads, which must fit into a gigabyte or two.
func TestEntrySize(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n > 112 {
		t.Errorf("an index entry takes %d bytes", n)
	}
}

func TestUUID(t *testing.T) {
	const good = "0000173c-bf67-44e7-9a9c-1ad0bc728e74"
	id, ok := uuid.Parse(good)
	if !ok || uuid.Format(id) != good {
		t.Errorf("%s came back as %s, %v", good, uuid.Format(id), ok)
	}
	for _, bad := range []string{
		"", "read-1", "0000173C-bf67-44e7-9a9c-1ad0bc728e74", "0000173cxbf67-44e7-9a9c-1ad0bc728e74",
		"0000173c-bf67-44e7-9a9c-1ad0bc728e7g", "0000173c-bf67-44e7-9a9c-1ad0bc728e745",
	} {
		if id, ok := uuid.Parse(bad); ok || id != [16]byte{} {
			t.Errorf("%q was taken for a UUID", bad)
		}
	}
}

func TestTimes(t *testing.T) {
	run := &Run{SampleRate: 3012, StartTime: time.Unix(1e9, 0).UTC()}
	for _, tc := range []struct {
		start uint64
		want  time.Duration
	}{
		{0, 0},
		{3012, time.Second},
		{1, time.Second / 3012},
		{3012*86400*3 + 1506, 3*24*time.Hour + time.Second/2},
		{math.MaxUint64, math.MaxInt64},
	} {
		rd := Read{Run: run, StartSample: tc.start}
		if got := rd.Start().Sub(run.StartTime); got != tc.want {
			t.Errorf("sample %d is %v after the start, want %v", tc.start, got, tc.want)
		}
	}
	if d := (&Read{Run: run, NumSamples: 1506}).Duration(); d != time.Second/2 {
		t.Errorf("duration %v", d)
	}
}

func TestEndReasons(t *testing.T) {
	for i := range endReasonNames {
		e := EndReason(i)
		if got, ok := ParseEndReason(e.String()); !ok || got != e || e.String() == "" {
			t.Errorf("%d is %q, which is %v", i, e, got)
		}
	}
	if e, ok := ParseEndReason("boredom"); ok || e != EndUnknown {
		t.Errorf("an unknown name gave %v", e)
	}
	if s := EndReason(200).String(); s != "unknown" {
		t.Errorf("an unknown value is called %q", s)
	}
}

func TestPicoamperes(t *testing.T) {
	c := Calibration{Offset: 6, Scale: 0.5}
	if got := c.Picoamperes(-10); got != -2 {
		t.Errorf("%v pA, want -2", got)
	}
}

func TestConsecutive(t *testing.T) {
	for _, tc := range []struct {
		rows []uint64
		want bool
	}{{[]uint64{5}, true}, {[]uint64{5, 6, 7}, true}, {[]uint64{5, 7}, false}, {[]uint64{5, 4}, false}} {
		if got := consecutive(tc.rows); got != tc.want {
			t.Errorf("consecutive(%v) = %v", tc.rows, got)
		}
	}
}

func TestChemistry(t *testing.T) {
	for _, tc := range []struct{ product, kit, want string }{
		{"FLO-MIN106", "sqk-rad004", "r9.4"},
		{"FLO-MIN106D", "SQK-LSK110", "r9.4"},
		{"FLO-MINSP6", "SQK-LSK109", "r9.4"},
		{"FLO-PRO002-ECO", "SQK-LSK110", "r9.4"},
		{"FLO-PRO001", "", "r9.4"},
		{"FLO-FLG001", "", "r9.4"},
		{"FLO-MIN111", "SQK-LSK110", "r10.3"},
		{"FLO-PRO112", "SQK-LSK112", "r10.4"},
		{"FLO-PRO114M", "sqk-lsk114", "r10.4.1"},
		{"FLO-MIN114", "", "r10.4.1"},
		{"FLO-FLG114", "", "r10.4.1"},
		{"FLO-MIN106", "sqk-rna002", "rna002"},
		{"FLO-PRO002-ECO", "SQK-RNA002", "rna002"},
		{"", "SQK-RNA002", "rna002"},
		{"FLO-MIN004RA", "sqk-rna004", "rna004"},
		{"", "SQK-RNA004", "rna004"},
		{"FLO-PRO004RA", "SQK-DRB004-24", "rna004"},
		{"", "sqk-drb004-24", "rna004"},
		{"", "sqk-lsk108", "r9.4"},
		{"", "SQK-NBD114-96", "r10.4.1"},
		{"unknown", "SQK-RPB114-24-260", "r10.4.1"},
		{"", "", ""},
		{"FLO-MIN999", "", ""},
		{"", "genomic_dna", ""},
	} {
		r := &Run{FlowCellProduct: tc.product, Kit: tc.kit}
		if got := r.Chemistry(); got != tc.want {
			t.Errorf("%q with %q is %q, want %q", tc.product, tc.kit, got, tc.want)
		}
	}
}
