package signal_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/signal"
)

func set(ids ...string) map[string]struct{} {
	m := make(map[string]struct{})
	for _, id := range ids {
		m[id] = struct{}{}
	}
	return m
}

// TestFilterIsThatOfAPassOverAllReads compares an index with a filter to a pass over all reads.
func TestFilterIsThatOfAPassOverAllReads(t *testing.T) {
	many := gunzip(t, "testdata/many.pod5.gz")
	paths := []string{many, "testdata/three_zlib_svb.blow5"}
	all := func() *signal.Index {
		x, err := signal.NewIndex(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	whole := all()
	var ids []string
	for i := 0; i < whole.Len(); i += 7 {
		ids = append(ids, whole.Entry(i).ID)
	}
	channels := func(s string) []signal.ChannelRange {
		c, err := signal.ParseChannels(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, f := range []signal.Filter{
		{},
		{Reads: set(ids...)},
		{Reads: set(ids[0])},
		{Channels: channels("3-10,500-600, 7,12")},
		{Channels: channels("326")},
		{From: time.Second},
		{To: 2 * time.Second},
		{From: time.Second, To: 2500 * time.Millisecond},
		{From: 2500 * time.Microsecond, To: math.MaxInt64},
		{Reads: set(ids...), Channels: channels("1-200"), From: time.Second, To: 20 * time.Second},
	} {
		t.Run(f.String(), func(t *testing.T) {
			want := make(map[string]string)
			runs := make(map[string]bool)
			for i := range whole.Len() {
				e := whole.Entry(i)
				begins := time.Duration(float64(e.StartSample) / float64(e.Run.SampleRate) * 1e9)
				in := func(r signal.ChannelRange) bool { return e.Channel >= r.First && e.Channel <= r.Last }
				_, listed := f.Reads[e.ID]
				if f.Reads != nil && !listed || f.Channels != nil && !slices.ContainsFunc(f.Channels, in) || begins < f.From || f.To > 0 && begins >= f.To {
					continue
				}
				want[e.ID] = e.Run.ID
				runs[e.Run.ID] = true
			}
			x := all()
			s, err := x.Select(f)
			if err != nil {
				t.Fatal(err)
			}
			if s.Of != whole.Len() || s.Missing != 0 || x.Len() != len(want) || len(want) == 0 {
				t.Errorf("%+v, %d reads, want %d", s, x.Len(), len(want))
			}
			got := make(map[string]string)
			for i := range x.Len() {
				e := x.Entry(i)
				got[e.ID] = e.Run.ID
				if samples, err := x.Samples(i, nil); err != nil || len(samples) != e.NumSamples {
					t.Fatalf("read %d: %d samples, %v", i, len(samples), err)
				}
			}
			if !maps.Equal(got, want) || len(x.Runs()) != len(runs) {
				t.Errorf("another choice of reads, or %d runs for %d", len(x.Runs()), len(runs))
			}
		})
	}
}

func TestSelectReports(t *testing.T) {
	open := func() *signal.Index {
		x, err := signal.NewIndex(t.Context(), []string{"testdata/three_vbz.pod5"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	x := open()
	s, err := x.Select(signal.Filter{Reads: set(x.Entry(1).ID, "nowhere", "absent")})
	if err != nil || s.Missing != 2 || s.Example != "absent" || s.Of != 3 || x.Len() != 1 {
		t.Errorf("%+v, %v, %d reads", s, err, x.Len())
	}
	for want, f := range map[string]signal.Filter{
		"none of the recording's 3 reads is chosen by: 1 listed reads": {Reads: set("absent")},
		"chosen by: channels 9999":                                     {Channels: []signal.ChannelRange{{First: 9999, Last: 9999}}},
		"chosen by: from 1000h0m0s":                                    {From: 1000 * time.Hour},
		"no read begins from 2s on and before 1s":                      {From: 2 * time.Second, To: time.Second},
		"not negative": {From: -1},
	} {
		x := open()
		if _, err := x.Select(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if x.Len() != 3 {
			t.Errorf("%q: after an error %d reads are left", want, x.Len())
		}
	}
}

func TestParseChannels(t *testing.T) {
	for in, want := range map[string]string{
		"1":                     "channels 1",
		"1-3":                   "channels 1-3",
		"9, 1-3,4,2":            "channels 1-4,9",
		"5-9,1-20":              "channels 1-20",
		"4294967295,1":          "channels 1,4294967295",
		"4294967294,4294967295": "channels 4294967294-4294967295",
	} {
		c, err := signal.ParseChannels(in)
		if f := (&signal.Filter{Channels: c}).String(); err != nil || f != want {
			t.Errorf("%q: %q, %v, want %q", in, f, err, want)
		}
	}
	for _, in := range []string{"", "a", "1-", "-1", "3-1", "1,,2", "1:5", "4294967296"} {
		if c, err := signal.ParseChannels(in); err == nil {
			t.Errorf("%q gives %v", in, c)
		}
	}
}

// TestFilterString: what chooses alike is described alike, and else differently;
// and shortly, as it is kept in every cursor.
func TestFilterString(t *testing.T) {
	var odd []string
	for i := range 1000 {
		odd = append(odd, fmt.Sprint(2*i+1))
	}
	list := func(s []string) []signal.ChannelRange {
		c, err := signal.ParseChannels(strings.Join(s, ","))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	seen := make(map[string]bool)
	for _, f := range []signal.Filter{
		{}, {Reads: set("a")}, {Reads: set("b")}, {Reads: set("a", "b")}, {Channels: list(odd)}, {Channels: list(odd[1:])}, {From: 1}, {To: 1},
	} {
		s := f.String()
		if seen[s] || len(s) > 300 || f.IsZero() != (s == "") {
			t.Errorf("%q", s)
		}
		seen[s] = true
	}
}

func TestLoadReadIDs(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "ids")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := signal.LoadReadIDs(write("read_id\tlength\n# comment\n\na\t12\r\n b,3\nread_id\na\n"))
	if err != nil || !maps.Equal(got, set("a", "b", "read_id")) {
		t.Errorf("%v, %v", got, err)
	}
	const upper, lower = "B55FD122-72A4-44EA-890B-9531F1920A2C", "b55fd122-72a4-44ea-890b-9531f1920a2c"
	for text, want := range map[string][]string{
		"\ufeff" + upper + "\nNo-UUID\n":                                            {lower, "No-UUID"},
		"filename\tread_id\trun_id\na.pod5\tx\tr\na b.pod5\ty\tr\n":                 {"x", "y"},
		"# made by\nfilename,read_id\r\n\"a,b\",x\r\n":                              nil,
		"filename,\"READ_ID\"\na.pod5,\"x\"\n":                                      {"x"},
		"filename\tread_id\tparent_read_id\na\tchild\tparent\na\twhole\t-\na\tw2\n": {"parent", "whole", "w2"},
		"parent_read_id\nx\n":                                                       {"x"},
		"read_id\tparent_read_id\nchild\tparent\n":                                  {"parent"},
	} {
		got, err := signal.LoadReadIDs(write(text))
		if want == nil {
			if err != nil || maps.Equal(got, set("x")) {
				t.Errorf("%q: %v, %v", text, got, err) // quoted separators aren't understood, so that is no id
			}
			continue
		}
		if err != nil || !maps.Equal(got, set(want...)) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for want, path := range map[string]string{
		"line 3: it has no id in the column": write("filename\tread_id\na\tx\nb\n"),
		"lists no read":                      write("\n# nothing\n"),
		"line 2: long":                       write("a\n" + strings.Repeat("x", 70_000)),
		"no such file":                       filepath.Join(t.TempDir(), "absent"),
	} {
		if _, err := signal.LoadReadIDs(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzLoadReadIDs(f *testing.F) {
	f.Add("read_id\tx\na\t1\n#b\n")
	f.Add("\r\n,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "ids")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ids, err := signal.LoadReadIDs(path)
		if err == nil && len(ids) == 0 {
			t.Fatal("no reads and no error")
		}
		for id := range ids {
			if id == "" || strings.ContainsAny(id, " \t,\r\n") {
				t.Fatalf("read id %q", id)
			}
		}
	})
}

func FuzzParseChannels(f *testing.F) {
	for _, s := range []string{"1", "1-3,5", "4294967295", "1,,2", "9-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := signal.ParseChannels(s)
		if err != nil {
			return
		}
		for i, r := range c {
			if r.First > r.Last || i > 0 && uint64(r.First) <= uint64(c[i-1].Last)+1 {
				t.Fatalf("%q gives %v", s, c)
			}
		}
	})
}

// gunzip unpacks a fixture into the test's folder.
func gunzip(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(name), ".gz"))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
