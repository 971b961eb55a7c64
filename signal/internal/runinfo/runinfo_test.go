package runinfo

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/porestream/porestream/signal/internal/text"
	"github.com/porestream/porestream/signal/pod5"
)

func TestParseTime(t *testing.T) {
	for s, want := range map[string]int64{
		"2018-06-07T10:10:13Z":             1528366213,
		"2023-06-02T16:12:59.057120+02:00": 1685715179,
		"1479433093":                       1479433093,
		"":                                 0,
		"0":                                0,
		"1970-01-01T00:00:00Z":             0,
		"2018-06-07 10:10:13+00:00":        1528366213,
		"yesterday":                        0,
		"99999999999999999999":             0,
	} {
		got := ParseTime(s)
		if want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("ParseTime(%q) = %v, want %d", s, got, want)
		}
	}
}

// TestRoundTrip converts invented descriptions of runs to attributes and back. Tags
// clash with fields and with each other, are empty, or have the form of missing ones.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	values := []string{"", ".", "a", "run", "1", "2020-01-02T03:04:05.678901Z", "x y", "\"q\" <&>", "ü"}
	pick := func() string { return values[r.IntN(len(values))] }
	names := []string{"odd", "sample_frequency", "adc_max", "software", "version", "acquisition_start_time", Exact}
	for _, w := range words {
		names = append(names, w.names...)
	}
	for n := range 20_000 {
		want := &pod5.RunInfo{ContextTags: map[string]string{}, TrackingID: map[string]string{}}
		for _, w := range words {
			*w.at(want) = pick()
		}
		for _, tags := range []map[string]string{want.ContextTags, want.TrackingID} {
			for range r.IntN(5) {
				tags[names[r.IntN(len(names))]] = pick()
			}
		}
		if r.IntN(2) == 0 {
			want.AcquisitionStartTime = time.UnixMilli(r.Int64N(1 << 41))
			want.ProtocolStartTime = time.UnixMilli(0)
			want.ADCMax, want.ADCMin = int16(r.IntN(1<<15)), -int16(r.IntN(1<<15))
		}
		attr, err := Attributes(want)
		if err != nil {
			t.Fatal(err)
		}
		// BLOW5 doesn't distinguish an empty value from a missing one.
		written := filled(attr)
		for k, v := range written {
			if err := text.Check(v); err != nil {
				t.Fatalf("attribute %q %v", k, err)
			}
		}
		if got, _ := FromAttributes(written); got.Difference(want) != "" {
			t.Fatalf("case %d: field %q of\n%+v\ncame back through %v as\n%+v", n, got.Difference(want), want, written, got)
		}
	}
}

// TestEditedAttributesAreBelieved changes an attribute beside the exact one.
func TestEditedAttributesAreBelieved(t *testing.T) {
	attr, err := Attributes(&pod5.RunInfo{AcquisitionID: "a", SampleID: "before", ContextTags: map[string]string{"k": ""}})
	if err != nil {
		t.Fatal(err)
	}
	if attr[Exact] == "" {
		t.Fatalf("attributes %v", attr)
	}
	edited := maps.Clone(attr)
	edited["sample_id"] = "after"
	if got, exact := FromAttributes(edited); exact || got.SampleID != "after" || got.TrackingID[Exact] != "" {
		t.Errorf("an edited sample is %+v", got)
	}
	broken := maps.Clone(attr)
	broken[Exact] = "{"
	if got, exact := FromAttributes(broken); exact || got.SampleID != "before" {
		t.Errorf("with a broken attribute the run is %+v", got)
	}
}

// TestAttributesOfOthers reads lists as MinKNOW's FAST5 files and converters of
// others leave them.
func TestAttributesOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		attr map[string]string
		want pod5.RunInfo
	}{
		"fast5": {
			map[string]string{"run_id": "r", "exp_start_time": "2018-06-07T10:10:13Z", "device_id": "MN1", "device_type": "minion", "hostname": "h", "version": "1.13.1", "package": "b"},
			pod5.RunInfo{
				AcquisitionID: "r", AcquisitionStartTime: time.Unix(1528366213, 0), SequencerPosition: "MN1", SequencerPositionType: "minion",
				SystemName: "h", Software: "MinKNOW 1.13.1",
			},
		},
		"blue-crab": {
			map[string]string{"acquisition_id": "r", "acquisition_start_time": "2018-06-07 10:10:13+00:00", "experiment_name": "e", "adc_max": "2047", "adc_min": "-2048", "software": "s"},
			pod5.RunInfo{AcquisitionID: "r", AcquisitionStartTime: time.Unix(1528366213, 0), ExperimentName: "e", ADCMax: 2047, ADCMin: -2048, Software: "s"},
		},
		"nothing": {map[string]string{"adc_max": "99999"}, pod5.RunInfo{}},
	} {
		got, _ := FromAttributes(c.attr)
		all := maps.Clone(got.ContextTags)
		maps.Copy(all, got.TrackingID)
		if !maps.Equal(all, c.attr) {
			t.Errorf("%s: tags are %v, want all of %v", name, all, c.attr)
		}
		got.ContextTags, got.TrackingID = nil, nil
		if d := got.Difference(&c.want); d != "" {
			t.Errorf("%s: %s is wrong in %s", name, d, fmt.Sprintf("%+v", got))
		}
	}
}

// FuzzFromAttributes reads attributes that anybody may have written: converted to a run
// info and back, they must say the same.
func FuzzFromAttributes(f *testing.F) {
	f.Add("run_id", "a", `{"acquisition_id":"a","tracking_id":{"k":""}}`)
	f.Add("exp_start_time", "2020-01-01T00:00:00Z", "{}")
	f.Add("adc_min", "-5", "")
	f.Add("0", ".", "") // a tag that the format takes for missing
	f.Fuzz(func(t *testing.T, name, value, exact string) {
		r, _ := FromAttributes(map[string]string{name: value, Exact: exact})
		attr, err := Attributes(r)
		if err != nil || !utf8.ValidString(name) || !utf8.ValidString(value) || !utf8.ValidString(exact) {
			return
		}
		if back, _ := FromAttributes(filled(attr)); back.Difference(r) != "" {
			t.Fatalf("field %q of %+v comes back through %v as %+v", back.Difference(r), r, attr, back)
		}
	})
}
