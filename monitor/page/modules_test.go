package page_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/monitor/page/pagetest/browser"
)

// module evaluates an expression in which m is a module of the page.
func module[T any](t *testing.T, tab *browser.Tab, name, expression string) T {
	t.Helper()
	return ask[T](t, tab, fmt.Sprintf(`import("/assets/%s").then((m) => (%s))`, name, expression))
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	for expression, want := range map[string]string{
		`m.si(0)`: "0", `m.si(7)`: "7", `m.si(88.64)`: "88.6", `m.si(999.4)`: "999", `m.si(999.6)`: "1.00 k", `m.si(1234567)`: "1.23 M", `m.si(999600)`: "1.00 M", `m.si(NaN)`: "–", `m.si(1.5)`: "1.50",
		`m.si(12.4e6)`: "12.4 M", `m.si(3.1e9)`: "3.10 G", `m.whole(48502)`: "48,502", `m.whole(null)`: "–", `m.whole(undefined)`: "–",
		`m.seconds(0.0034)`: "3.4 ms", `m.seconds(0.0341)`: "34 ms", `m.seconds(0.9999)`: "1.0 s", `m.seconds(12.3)`: "12 s", `m.seconds(252)`: "4 min 12 s", `m.seconds(null)`: "–", `m.seconds(-1)`: "–",
		`m.age(59.6)`: "1 min 00 s", `m.age(3905)`: "1 h 05 min", `m.age(90000)`: "1 d 1 h", `m.age(NaN)`: "–",
		`m.percent(0.034)`: "3.4 %", `m.percent(0.99)`: "99 %", `m.percent(0)`: "0 %", `m.percent(NaN)`: "–",
		`m.allele("ACGTACGTACGTACGTACGT")`: "ACGTACG…CGT (20)", `m.allele("A")`: "A", `m.allele("")`: "–",
		`m.count(1, "read")`: "1 read", `m.count(2, "read")`: "2 reads", `m.words("stop_gained")`: "stop gained",
		`m.score({score: 0.62, gene: "TUBB8", changes: [{name: "acceptor_gain", score: 0.01, position: -2}, {name: "acceptor_loss", score: 0.18, position: 1100}, {name: "donor_gain", score: 0, position: 5}, {name: "donor_loss", score: 0.62, position: 0}]})`: "0.62 in TUBB8: donor loss 0.62 at +0, acceptor loss 0.18 at +1,100, acceptor gain 0.01 at −2",
		`m.score({score: 1.5, changes: [{name: "dnase", score: -1.5}, {name: "b", score: 1}, {name: "c", score: 0.5}]}, 2)`:                                                                                                                                       "1.5: dnase -1.5, b 1, 1 more",
		`m.score({score: 0, changes: [{name: "a", score: 0}, {name: "b", score: 0}]})`:                                                                                                                                                                            "0: a 0", `m.score({gene: "X", unscored: "too long"})`: "X: not scored: too long",
		`m.ticks(0, 48502, 5).join()`: "0,10000,20000,30000,40000", `m.ticks(5, 5, 3).join()`: "", `m.ticks(0.5, 3.2, 3).join()`: "1,2,3",
		`String(m.instant("0001-01-01T00:00:00Z"))`: "NaN", `String(m.instant("2026-03-02T09:00:00Z"))`: "1772442000000",
	} {
		assert.Equal(t, want, module[string](t, tab, "format.js", `String(`+expression+`)`), expression)
	}
}

// TestChannelsHavePlacesOfTheirOwn checks the geometries: no two channels in one place,
// none outside, and some places that are known of the real flow cells.
func TestChannelsHavePlacesOfTheirOwn(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	for _, tt := range []struct {
		layout               string
		columns, rows, count int
		known                map[int][2]int // channel → column, row
	}{
		{"minion", 32, 16, 512, map[int][2]int{33: {0, 0}, 40: {0, 7}, 8: {0, 8}, 1: {0, 15}, 481: {4, 0}, 72: {28, 8}, 121: {31, 0}, 89: {31, 15}}},
		{"promethion", 120, 25, 3000, map[int][2]int{1: {0, 0}, 10: {9, 0}, 11: {0, 1}, 250: {9, 24}, 251: {10, 0}, 3000: {119, 24}}},
		{"flongle", 13, 10, 126, map[int][2]int{1: {0, 0}, 12: {11, 0}, 13: {0, 1}, 25: {0, 2}, 37: {12, 2}, 103: {0, 8}, 126: {11, 9}}},
		{"grid", 8, 8, 64, map[int][2]int{1: {0, 0}, 9: {0, 1}, 64: {7, 7}}},
		{"grid", 0, 0, 10, map[int][2]int{1: {0, 0}}},
		{"minion", 32, 16, 100, map[int][2]int{33: {0, 0}}},
	} {
		t.Run(fmt.Sprintf("%s %d", tt.layout, tt.count), func(t *testing.T) {
			got := module[struct {
				Columns, Rows int
				X, Y          []int
			}](t, tab, "flowcell-layout.js", fmt.Sprintf(`(({columns, rows, x, y}) => ({Columns: columns, Rows: rows, X: [...x], Y: [...y]}))(m.layout(%q, %d, %d, %d))`, tt.layout, tt.columns, tt.rows, tt.count))
			require.Len(t, got.X, tt.count)
			taken := map[[2]int]int{}
			for i := range got.X {
				place := [2]int{got.X[i], got.Y[i]}
				assert.Zero(t, taken[place], "channels %d and %d are in one place", taken[place], i+1)
				taken[place] = i + 1
				assert.True(t, place[0] < got.Columns && place[1] < got.Rows, "channel %d is outside", i+1)
			}
			for channel, place := range tt.known {
				assert.Equal(t, place, [2]int{got.X[channel-1], got.Y[channel-1]}, "channel %d", channel)
			}
		})
	}
	bands := func(width, height int) int {
		return module[int](t, tab, "flowcell-layout.js", fmt.Sprintf(`m.fold(120, 25, %d, %d, 10).bands`, width, height))
	}
	assert.Equal(t, 1, bands(1800, 400))
	assert.Equal(t, 2, bands(600, 460))
	assert.Equal(t, 3, bands(360, 700))
}

// TestEventsAreReadWhereverTheyAreCut cuts a stream into pieces at every place.
func TestEventsAreReadWhereverTheyAreCut(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	stream := ": hello\n\nretry: 2000\n\nevent: a\ndata: {\"x\":1}\n\n: .\n\nevent: b\r\ndata:two\r\ndata: lines\r\n\r\ndata: unnamed\n\nevent: c\ndata: ü – 😀\n\nevent: without data\n\nevent: d\ndata: not ended\n"
	want := [][]string{{"a", `{"x":1}`}, {"b", "two\nlines"}, {"message", "unnamed"}, {"c", "ü – 😀"}}
	quoted, err := json.Marshal(stream)
	require.NoError(t, err)
	got := module[[][][]string](t, tab, "feed.js", fmt.Sprintf(`(() => {
		const text = %s;
		const read = (pieces) => { const out = []; const p = new m.Parser((name, data) => out.push([name, data])); for (const piece of pieces) p.push(piece); return out; };
		const all = [read([text]), read([...text])];
		for (let i = 0; i <= text.length; i++) all.push(read([text.slice(0, i), text.slice(i)]));
		return all;
	})()`, quoted))
	for i, events := range got {
		assert.Equal(t, want, events, "cut %d", i)
	}
}

func TestReadsAreCountedByWhatTheyShow(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	read := func(strand string, start int, bases, insertion string, column int) string {
		insertions := "[]"
		if insertion != "" {
			insertions = fmt.Sprintf(`[{column: %d, bases: %q}]`, column, insertion)
		}
		return fmt.Sprintf(`{strand: %q, start: %d, bases: %q, insertions: %s}`, strand, start, bases, insertions)
	}
	type group struct {
		Shows            string
		Forward, Reverse int
	}
	for _, tt := range []struct {
		name, ref, alt string
		pos            int // of a reference ACGTACGTAC from 101
		reads          []string
		want           []group
	}{
		{"substitution", "G", "T", 103, []string{
			read("+", 0, "..T.......", "", 0), read("-", 2, "T..", "", 0), read("-", 0, "..........", "", 0), read("+", 3, "....", "", 0), read("+", 0, "..-.", "", 0), read("+", 0, "..A", "", 0),
		}, []group{{"alt", 1, 1}, {"-", 1, 0}, {"A", 1, 0}, {"ref", 0, 1}}},
		{"deletion", "GT", "G", 103, []string{read("+", 0, "...-......", "", 0), read("-", 0, "..........", "", 0), read("-", 0, "...", "", 0)}, []group{{"alt", 1, 0}, {"ref", 0, 1}}},
		{"insertion", "G", "GCC", 103, []string{read("+", 0, "..........", "CC", 2), read("-", 0, "..........", "C", 2), read("-", 0, "..........", "CC", 5)}, []group{{"GC", 0, 1}, {"alt", 1, 0}, {"ref", 0, 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pileup := `{from: 101, reference: "ACGTACGTAC", rows: [`
			for _, r := range tt.reads {
				pileup += r + ","
			}
			pileup += `]}`
			got := module[[]group](t, tab, "pileup-counts.js", fmt.Sprintf(`m.shown(%s, {pos: %d, ref: %q, alt: %q}).map((g) => ({Shows: g.shows, Forward: g.forward, Reverse: g.reverse}))`, pileup, tt.pos, tt.ref, tt.alt))
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestStoreHoldsWhatTheServerHolds plays connections to the store, one after the other.
func TestStoreHoldsWhatTheServerHolds(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	got := module[map[string]any](t, tab, "store.js", `(() => {
		const s = new m.Store();
		const variant = (id, revision, updated) => ({ id, revision, updated });
		s.apply("hello", { server_time: "2026-03-02T09:00:00Z" }, 0);
		s.apply("summary", { history: { seconds_per_point: 1, samples: [1, 2, 3], sequencer: [], bases: [], reads: [] } }, 0);
		s.apply("summary", { history: { seconds_per_point: 1, samples: [4], sequencer: [], bases: [], reads: [] } }, 0);
		s.apply("variants", { reset: true, upsert: [], remove: [] }, 1);
		s.apply("variants", { upsert: [variant("old", 1, "2026-03-02T08:00:00Z"), variant("gone", 1, "2026-03-02T08:00:00Z")] }, 2);
		s.apply("variants", { upsert: [variant("new", 1, "2026-03-02T09:00:01Z")], remove: ["gone"] }, 3);
		s.apply("depth", { contigs: [{ sample: "s", name: "a", mean: 1 }, { sample: "s", name: "b", mean: 1 }] }, 3);
		s.apply("depth", { contigs: [{ sample: "s", name: "b", mean: 2 }] }, 3);
		s.apply("problems", { upsert: [{ id: "p", severity: "info" }, { id: "q", severity: "error" }], remove: [] }, 3);
		s.apply("nonsense", {}, 3);
		const first = { samples: [...s.history.samples], fresh: [...s.variants.values()].map((v) => v.id + v.changedAt), means: [...s.contigs.values()].map((c) => c.mean), order: m.sortedProblems(s.problems).map((p) => p.id) };
		s.apply("hello", { server_time: "2026-03-02T10:00:00Z" }, 4);
		first.kept = s.problems.size;
		s.apply("problems", { upsert: [] }, 4);
		s.apply("depth", { contigs: [{ sample: "s", name: "c", mean: 3 }] }, 4);
		s.apply("summary", { history: { seconds_per_point: 1, samples: [9], sequencer: [], bases: [], reads: [] } }, 4);
		s.apply("variants", { reset: true, upsert: [variant("old", 2, "2026-03-02T09:30:00Z")] }, 5);
		return { ...first, problems: s.problems.size, contigs: [...s.contigs.keys()], after: [...s.history.samples], second: [...s.variants.values()].map((v) => v.id + v.changedAt) };
	})()`)
	assert.Equal(t, map[string]any{
		"samples": []any{1.0, 2.0, 3.0, 4.0}, "fresh": []any{"old-Infinity", "new3"}, "means": []any{1.0, 2.0}, "order": []any{"q", "p"}, "kept": 2.0,
		"problems": 0.0, "contigs": []any{"s\nc"}, "after": []any{9.0}, "second": []any{"old-Infinity"},
	}, got)
}
