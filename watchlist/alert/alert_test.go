package alert

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
)

func ptr(f float64) *float64 { return &f }

// full is an alert with every member set.
func full() *watchlist.Alert {
	return &watchlist.Alert{
		SchemaVersion: watchlist.AlertVersion, ID: "Zm9vYmFy", Sample: "patient 7/b", Run: "run 1",
		Panel: watchlist.Source{ID: "lambda-demo", Version: "2", Hash: "sha256:" + strings.Repeat("0f", 32)},
		Rule:  "cI-E118K", Label: "Repressor, E118K", Severity: "high",
		Scope: watchlist.ScopeAllele, Subject: "ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc",
		State: watchlist.Detected, Previous: watchlist.Suspected, Revision: 3, Final: true, Reason: "21 of 24 reads show it",
		Allele: &event.Allele{VRSID: "ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc", Contig: "J02459.1", Pos: 37_589, Ref: "C", Alt: "T"},
		Consequence: &annotate.Consequence{
			Allele: "T", Gene: &annotate.Gene{Symbol: "cI", ID: "gene1"}, Terms: []annotate.Term{{SO: "SO:0001583", Name: "missense_variant"}},
			Impact: annotate.Moderate, HGVSp: "tx1:p.Glu118Lys",
		},
		Evidence: &watchlist.Evidence{
			Status: "FINAL", Depth: 24, AltForward: 11, AltReverse: 10, AlleleFraction: 0.875, Qual: 41.25, Filters: []string{"LowDepth"},
			LogLikelihoodRatio: 35.9, Threshold: 9.2,
		},
		Coverage:    &watchlist.Covered{Positions: 3, NotCallable: 1, DepthNeeded: 16, Worst: &watchlist.Place{Contig: "J02459.1", Pos: 37_590, Depth: 14}},
		Probability: watchlist.Probability{FalseAlarm: ptr(1e-4), Miss: ptr(0.0125)},
		Methylation: &watchlist.MethylationAnswer{Contig: "J02459.1", Start: 101, End: 1_600, Asked: "methylated", Code: "m", Share: 0.91, Depth: 22.5, Positions: 90, PositionsNeeded: 4},
		Alleles:     []watchlist.AlleleState{{VRSID: "ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc", State: watchlist.Detected}},
	}
}

// bare is an alert of a rule in a sample without a read.
func bare() *watchlist.Alert {
	return &watchlist.Alert{
		SchemaVersion: watchlist.AlertVersion, ID: "x", Sample: "s", Panel: watchlist.Source{ID: "p", Version: "1", Hash: "sha256:" + strings.Repeat("00", 32)},
		Rule: "r", Scope: watchlist.ScopeRule, State: watchlist.NotCallable, Previous: watchlist.Pending, Revision: 1, Reason: "no reads",
	}
}

func asRecord(o stream.Out) stream.Record {
	return stream.Record{Topic: o.Topic, Partition: 4, Offset: 17, Key: o.Key, Value: o.Value, Headers: o.Headers}
}

func headersOf(o stream.Out) map[string]string {
	m := make(map[string]string)
	for _, h := range o.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	for name, a := range map[string]*watchlist.Alert{"full": full(), "bare": bare()} {
		o, err := Record("alerts", a)
		if err != nil {
			t.Fatal(err)
		}
		back, end, err := Decode(asRecord(o))
		if err != nil || end != nil || !reflect.DeepEqual(back, a) {
			t.Errorf("%s: alert became\n%+v\nfrom\n%+v, %v, %v", name, back, a, end, err)
		}
	}
}

func TestRecord(t *testing.T) {
	o, err := Record("lab-alerts", full())
	if err != nil {
		t.Fatal(err)
	}
	key := "patient 7%2Fb/lambda-demo/cI-E118K/ga4gh:VA.mMMmXYS7bUV1LeQoNNMVzQjXC9CFRcIc"
	if string(o.Key) != key || o.Topic != "lab-alerts" || o.Partition != stream.AnyPartition {
		t.Errorf("record goes to key %q, topic %s, partition %d", o.Key, o.Topic, o.Partition)
	}
	want := map[string]string{
		"ce_specversion": "1.0", "ce_type": "porestream.alert.v1", "ce_id": "Zm9vYmFy", "ce_source": "urn:porestream:run:run%201",
		"ce_subject": "lambda-demo/cI-E118K", "ce_partitionkey": key, "content-type": "application/json",
	}
	if got := headersOf(o); !reflect.DeepEqual(got, want) {
		t.Errorf("headers %v, want %v", got, want)
	}
	if strings.Contains(string(o.Value), "\n") || !strings.Contains(string(o.Value), `"id":"Zm9vYmFy"`) {
		t.Errorf("document %s", o.Value)
	}
}

func TestDecode(t *testing.T) {
	typed := func(typ, value string) stream.Record {
		return stream.Record{Topic: "alerts", Partition: 4, Offset: 17, Value: []byte(value), Headers: []stream.Header{{Key: "ce_type", Value: []byte(typ)}}}
	}
	good := `{"schema_version":1,"sample":"s","panel":{"id":"p"},"rule":"r","revision":1,"state":"DETECTED","new_member":{"a":[1]}}`
	if a, _, err := Decode(typed(Type, good)); err != nil || a.State != watchlist.Detected {
		t.Errorf("an alert with a new member: %v, %v", a, err)
	}
	if a, end, err := Decode(typed("porestream.alert.v2", "whatever")); a != nil || end != nil || err != nil {
		t.Errorf("an event of another type: %v, %v, %v", a, end, err)
	}
	outs, err := event.RunEndRecords("alerts", 1, &streampb.Marker{Run: &streampb.Run{Id: "r", Sample: "s"}, Source: 1, Sources: 2})
	if err != nil {
		t.Fatal(err)
	}
	if a, end, err := Decode(asRecord(outs[0])); a != nil || err != nil || end.Run != "r" || end.Sources != 2 {
		t.Errorf("the end of a run: %v, %v, %v", a, end, err)
	}
	for _, bad := range []string{
		"", "null", "[]", "{}", good[:40],
		strings.Replace(good, `"revision":1`, `"revision":0`, 1), strings.Replace(good, `"sample":"s"`, `"sample":""`, 1),
		strings.Replace(good, `"rule":"r"`, `"rule":""`, 1), strings.Replace(good, `"id":"p"`, `"id":""`, 1),
	} {
		a, end, err := Decode(typed(Type, bad))
		if err == nil || a != nil || end != nil {
			t.Errorf("%s: %v, %v", bad, a, end)
		} else if !strings.Contains(err.Error(), "record 17 of alerts/4") {
			t.Errorf("%s: error %q doesn't say where", bad, err)
		}
	}
}

func TestSupersedes(t *testing.T) {
	of := func(hash string, revision uint64) *watchlist.Alert {
		return &watchlist.Alert{Panel: watchlist.Source{Hash: hash}, Revision: revision}
	}
	for _, c := range []struct {
		a, known *watchlist.Alert
		want     bool
	}{
		{of("h", 1), nil, true}, {of("h", 2), of("h", 1), true}, {of("h", 2), of("h", 2), false}, {of("h", 1), of("h", 2), false},
		{of("changed", 1), of("h", 7), true},
	} {
		if got := Supersedes(c.a, c.known); got != c.want {
			t.Errorf("%v after %v: %v", c.a, c.known, got)
		}
	}
}

func TestAlertIsOneLineOfText(t *testing.T) {
	negative := bare()
	negative.Subject, negative.State, negative.Revision, negative.Reason = "cI:p.Ala67Thr", watchlist.Negative, 2, "not called at a depth of at least 20"
	negative.Probability.Miss = ptr(0.0125)
	for want, a := range map[string]*watchlist.Alert{
		"DETECTED     patient 7/b  lambda-demo/cI-E118K  J02459.1:37589 C>T  missense_variant cI p.Glu118Lys  21/24 reads  QUAL 41.2" +
			"  J02459.1:101-1600 methylated?  false alarm <= 0.0001  (21 of 24 reads show it)  rev 3": full(),
		"NEGATIVE     s  p/r  cI:p.Ala67Thr  miss <= 0.013  (not called at a depth of at least 20)  rev 2": negative,
		"NOT_CALLABLE s  p/r  (no reads)  rev 1":                                                           bare(),
	} {
		if got := Text(a); got != want {
			t.Errorf("text\n%s\nwant\n%s", got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range []*watchlist.Alert{full(), bare()} {
		document, err := a.JSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(Type, document)
	}
	f.Add(Type, []byte(`{"sample":"s","panel":{"id":"p"},"rule":"r","revision":1,"consequence":{"terms":[]},"evidence":{},"probability":{"miss":0}}`))
	f.Add(event.TypeRunEnd, []byte(`{"run":"r","sample":"s","source":0,"sources":1}`))
	f.Fuzz(func(t *testing.T, typ string, value []byte) {
		a, end, err := Decode(stream.Record{Value: value, Headers: []stream.Header{{Key: "ce_type", Value: []byte(typ)}}})
		if err != nil && (a != nil || end != nil) || a != nil && end != nil {
			t.Fatalf("%v, %v, %v", a, end, err)
		}
		if a == nil {
			return
		}
		_ = Text(a)
		o, err := Record("alerts", a)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		var again any
		if err := json.Unmarshal(o.Value, &again); err != nil {
			t.Fatalf("document %s: %v", o.Value, err)
		}
	})
}
