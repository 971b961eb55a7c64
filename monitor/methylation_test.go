package monitor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
)

// stretch is a revision of 5mC of sites every 10 positions of a stretch from start on, on both strands: of revision
// calls that count, the forward ones are modified.
func stretch(t testing.TB, contig string, start, sites, revision int, status string) stream.Record {
	t.Helper()
	s := methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "x", Revision: uint64(revision), Status: status, Code: "m",
		Stretch: event.Stretch{Contig: contig, Pos: int64(start) + 1, End: int64(start) + 4096}, Sites: methylation.NewSites(),
	}
	for i := range sites {
		s.Sites.Add(&pileup.Row{Pos: start + 10*i, Strand: pileup.Plus, Modified: revision, Failed: 3})
		s.Sites.Add(&pileup.Row{Pos: start + 10*i, Strand: pileup.Minus, Canonical: revision - 1, Other: 1, Uncalled: 2})
	}
	out, err := s.Record(topics.Methylation)
	require.NoError(t, err)
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: atRevision(revision)}
}

// ofHaplotype is a revision as if of the reads of one haplotype.
func ofHaplotype(t testing.TB, rec stream.Record) stream.Record {
	t.Helper()
	s, _, err := methylation.Decode(rec)
	require.NoError(t, err)
	s.Haplotype, s.Revision = 1, s.Revision+1
	out, err := s.Record(topics.Methylation)
	require.NoError(t, err)
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: rec.Time}
}

func atRevision(revision int) time.Time { return start.Add(time.Duration(revision) * time.Second) }

// Whatever order revisions come in, however often, the highest of each stretch is what is shown; those of a haplotype's reads are a track of their own.
func TestMethylationInAnyOrder(t *testing.T) {
	var records []stream.Record
	for at := range 5 {
		for revision := 1; revision <= 4; revision++ {
			status := methylation.Provisional
			if revision == 4 && at < 3 {
				status = methylation.Final
			}
			records = append(records, stretch(t, "c", 4096*at, 100+revision, revision, status))
		}
		records = append(records, ofHaplotype(t, records[len(records)-1]))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		v := monitor.NewView(topics, monitor.Limits{})
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		add(t, v, records...)
		add(t, v, records[:7]...)
		z, err := v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", Bins: 5})
		require.NoError(t, err)
		want := []int{416, 416, 416, 416, 416}
		require.Equal(t, monitor.MethylationZoom{
			Sample: "x", Contig: "c", Code: "m", To: 20480, Bin: 4096, States: "fffpp",
			Strands: [2]monitor.MethylationBins{
				{Modified: want, Valid: want, Sites: []int{104, 104, 104, 104, 104}},
				{Modified: []int{0, 0, 0, 0, 0}, Valid: want, Sites: []int{104, 104, 104, 104, 104}},
			},
		}, z)
		all := monitor.MethylationTrack{
			Sample: "x", Name: "c", Code: "m", Length: 20480, Sites: 1040, Modified: 2080, Valid: 4160, Stretches: 5, Final: 3, Updated: atRevision(4).UTC(),
		}
		first := all
		first.Haplotype = 1
		require.Equal(t, []monitor.MethylationTrack{all, first}, tracks(t, v.Whole(start)))
		z.Haplotype = 1
		byHaplotype, err := v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", Haplotype: 1, Bins: 5})
		require.NoError(t, err)
		require.Equal(t, z, byHaplotype)
		_, err = v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", Haplotype: 2, Bins: 5})
		require.ErrorIs(t, err, monitor.ErrNoMethylation)
	}
}

func tracks(t *testing.T, events []monitor.Event) []monitor.MethylationTrack {
	t.Helper()
	var out []monitor.MethylationTrack
	for _, e := range events {
		if e.Name == monitor.EventMethylation {
			var m monitor.Methylation
			require.NoError(t, json.Unmarshal(e.Data, &m))
			out = append(out, m.Tracks...)
		}
	}
	return out
}

func TestMethylationSiteBySite(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	add(t, v, stretch(t, "c", 4096, 3, 7, methylation.Final))
	z, err := v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", From: 4096, To: 4118, Bins: 22})
	require.NoError(t, err)
	assert.Equal(t, 1, z.Bin)
	assert.Equal(t, "f.........f.........f.", z.States)
	assert.Equal(t, []int{7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0}, z.Strands[1].Valid)
	_, err = v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "h", Bins: 10})
	require.ErrorIs(t, err, monitor.ErrNoMethylation)
	z, err = v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", From: 99_999, To: 99_999, Bins: 10}) // beyond the end: its last position
	require.NoError(t, err)
	assert.Equal(t, ".", z.States)
}

// A view holds no more than its limits: sums for sites beyond them, and beyond stretches and tracks nothing. It says so.
func TestMethylationIsBounded(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{MethylationTracks: 2, MethylationStretches: 4, MethylationSites: 450, Runs: 1})
	for at := range 6 {
		add(t, v, stretch(t, "c", 4096*at, 100, 1, methylation.Final))
	}
	add(t, v, stretch(t, "d", 0, 1, 1, methylation.Final), stretch(t, "e", 0, 1, 1, methylation.Final))
	got := tracks(t, v.Whole(start))
	require.Len(t, got, 1)
	assert.Equal(t, 4, got[0].Stretches)
	assert.Equal(t, 2, got[0].Coarse, "two of 200 sites fit into 450")
	assert.Equal(t, 800, got[0].Sites, "sums have all of them")
	assert.Equal(t, 4, v.Summary(start).LeftOut["methylation"])
	z, err := v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", To: 16384, Bins: 4000})
	require.NoError(t, err)
	assert.Equal(t, 4096, z.Bin, "no finer than what is known")
	assert.Equal(t, []int{100, 100, 100, 100}, z.Strands[0].Sites)
	z, err = v.MethylationZoom(monitor.MethylationStretch{Sample: "x", Contig: "c", Code: "m", To: 4096, Bins: 4000})
	require.NoError(t, err)
	assert.Equal(t, 2, z.Bin)

	// A revision with fewer sites gives space back, and one that was left out gets it with its next revision.
	add(t, v, stretch(t, "c", 0, 10, 2, methylation.Final), stretch(t, "c", 8192, 100, 2, methylation.Final))
	got = tracks(t, v.Whole(start))
	assert.Equal(t, 1, got[0].Coarse)
	assert.Equal(t, 620, got[0].Sites)
}

// What a page has to know comes in pieces, and each change once.
func TestMethylationChangesAreSentOnce(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	for i := range 1200 {
		add(t, v, stretch(t, string(rune('a'+i)), 0, 1, 1, methylation.Provisional))
	}
	seen := map[string]int{}
	for i := range 5 {
		events := tracks(t, v.Changes(start.Add(time.Duration(10*i)*time.Second)))
		assert.LessOrEqual(t, len(events), 500)
		for _, track := range events {
			seen[track.Name]++
		}
	}
	assert.Len(t, seen, 1200)
	for name, n := range seen {
		assert.Equal(t, 1, n, name)
	}
	assert.Len(t, tracks(t, v.Whole(start)), 1200)
}

// BenchmarkMethylation takes in a document of 400 sites, as of a stretch of human DNA with both strands of CpGs.
func BenchmarkMethylation(b *testing.B) {
	v := monitor.NewView(topics, monitor.Limits{})
	var records []stream.Record
	for revision := 1; revision <= 1000; revision++ {
		records = append(records, stretch(b, "c", 0, 200, revision, methylation.Final))
	}
	b.SetBytes(int64(len(records[0].Value)))
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			v = monitor.NewView(topics, monitor.Limits{})
		}
		add(b, v, records[i%1000])
	}
}

// A variant's details name the variants of its phase set in its sample and the sites around, the nearest ones.
func TestDetailsOfHaplotypes(t *testing.T) {
	v := monitor.NewView(topics, monitor.Limits{})
	for n := range 60 {
		rec := variantRecord(t, n, 1, "FINAL", "LOW")
		e, _, err := event.Decode(rec)
		require.NoError(t, err)
		e.Call.PhaseSet = int64(1 + n%2)
		if n%7 == 0 {
			e.Call.PhaseSet = 0
		}
		if n == 32 {
			e.Status = "RETRACTED"
		}
		rec.Value, err = json.Marshal(e)
		require.NoError(t, err)
		add(t, v, rec)
	}
	d, err := v.Detail("x/ga4gh:VA.30")
	require.NoError(t, err)
	require.Len(t, d.Phased, 20)
	for i, o := range d.Phased {
		var n int
		_, err := fmt.Sscanf(o.ID, "x/ga4gh:VA.%d", &n)
		require.NoError(t, err)
		assert.True(t, n%2 == 0 && n%7 != 0 && n != 30 && n != 32, "%s", o.ID)
		if i > 0 {
			assert.LessOrEqual(t, d.Phased[i-1].Pos, o.Pos)
		}
	}
	assert.Empty(t, d.Near)
	alone, err := v.Detail("x/ga4gh:VA.28")
	require.NoError(t, err)
	assert.Empty(t, alone.Phased, "not phased")

	add(t, v, stretch(t, d.Row.Contig, 0, 400, 6, methylation.Final), stretch(t, d.Row.Contig, 4096, 400, 5, methylation.Provisional))
	near := v.SitesNear("x", d.Row.Contig, 4101)
	require.Len(t, near, 20)
	assert.Equal(t, monitor.NearSite{Pos: 4097, Strand: "+", Code: "m", Modified: 5, Valid: 5}, near[0])
	assert.Equal(t, monitor.NearSite{Pos: 4187, Strand: "-", Code: "m", Valid: 5}, near[19])
	assert.Empty(t, v.SitesNear("x", d.Row.Contig, 9_000))
	assert.Empty(t, v.SitesNear("y", d.Row.Contig, 4101))
}

// TestSitesNearAnyPlace: sites beside a place are those within 500 bases of all stretches, however long these are, whatever their revisions and wherever they begin.
func TestSitesNearAnyPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 49))
	v := monitor.NewView(topics, monitor.Limits{})
	const length = 300_000
	sites := make(map[int]bool)
	for at := 0; at < length; {
		width := []int{1, 500, 4096, 32_767, 32_768}[r.IntN(5)]
		for revision := range 1 + r.IntN(3) { // each has the sites of the newest
			s := methylation.Stretch{
				SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "x", Revision: uint64(revision + 1), Status: methylation.Final, Code: "m",
				Stretch: event.Stretch{Contig: "c", Pos: int64(at) + 1, End: int64(at + width)}, Sites: methylation.NewSites(),
			}
			for pos := at; pos < at+width; pos += 40 {
				s.Sites.Add(&pileup.Row{Pos: pos, Strand: pileup.Plus, Modified: revision + 1})
				sites[pos+1] = true
			}
			out, err := s.Record(topics.Methylation)
			require.NoError(t, err)
			add(t, v, stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers})
		}
		at += width + r.IntN(3)*300
	}
	places := []int{1, 2, 32_768, 32_769, 65_536, length}
	for range 300 {
		places = append(places, 1+r.IntN(length))
	}
	for _, pos := range places {
		near := v.SitesNear("x", "c", int64(pos))
		farthest, within := 0, 0
		for _, s := range near {
			require.True(t, sites[int(s.Pos)])
			farthest = max(farthest, int(s.Pos)-pos, pos-int(s.Pos))
		}
		for p := pos - 500; p <= pos+500; p++ {
			if sites[p] {
				if within++; max(p-pos, pos-p) < farthest {
					require.Condition(t, func() bool {
						for _, s := range near {
							if int(s.Pos) == p {
								return true
							}
						}
						return false
					}, "%d isn't among those nearest to %d", p, pos)
				}
			}
		}
		require.Len(t, near, min(within, 20), "at %d", pos)
	}
}
