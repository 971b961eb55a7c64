package packed_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

func sample(t testing.TB) []byte {
	t.Helper()
	b := []byte{3}
	b = packed.AppendUint(b, uint64(math.MaxUint64))
	b = packed.AppendInt(b, math.MinInt64)
	b = packed.AppendLen(b, 300)
	b = packed.AppendBool(packed.AppendBool(b, true), false)
	b = packed.AppendBytes(b, "read")
	b = packed.AppendBytes(b, []byte{})
	b = packed.AppendStrings(packed.AppendStrings(b, nil), []string{"first", "", "last"})
	b, err := packed.AppendMessage(b, &streampb.Run{Id: "run", SampleRate: 4000})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// read reads what sample wrote, and reports whether it is that.
func read(r *packed.Reader) bool {
	run := new(streampb.Run)
	ok := r.Version(3) == 3 && r.Uint(math.MaxUint64) == math.MaxUint64 && r.Int() == math.MinInt64 && r.Len(300) == 300 &&
		r.Bool() && !r.Bool() && r.String(10) == "read" && len(r.Bytes(0)) == 0 && r.Strings(0) == nil && slices.Equal(r.Strings(5), []string{"first", "", "last"})
	r.Message(run)
	return ok && proto.Equal(run, &streampb.Run{Id: "run", SampleRate: 4000})
}

func TestRoundTrip(t *testing.T) {
	r := packed.NewReader(sample(t))
	if !read(r) || r.Done() != nil {
		t.Errorf("read something else: %v", r.Done())
	}
}

func TestDamage(t *testing.T) {
	whole := sample(t)
	for n := range whole {
		r := packed.NewReader(whole[:n])
		if read(r); r.Done() == nil {
			t.Errorf("the first %d of %d bytes are taken for all", n, len(whole))
		}
	}
	for name, test := range map[string]struct {
		b    []byte
		read func(r *packed.Reader)
		want string
	}{
		"too many":      {append(bytes.Clone(whole), 7), func(r *packed.Reader) { read(r) }, "1 bytes too many"},
		"newer version": {[]byte{4}, func(r *packed.Reader) { r.Version(3) }, "version 4"},
		"no version":    {[]byte{0}, func(r *packed.Reader) { r.Version(3) }, "version 0"},
		"bool":          {[]byte{2}, func(r *packed.Reader) { r.Bool() }, "neither yes nor no"},
		"limit":         {[]byte{9}, func(r *packed.Reader) { r.Len(8) }, "9 is more than 8"},
		"huge number":   {bytes.Repeat([]byte{0xff}, 11), func(r *packed.Reader) { r.Uint(math.MaxUint64) }, "64 bits"},
		"huge count":    {[]byte{0xff, 0xff, 3, 0, 0}, func(r *packed.Reader) { r.Count(2) }, "space for 1"},
		"huge string":   {[]byte{200, 1, 0}, func(r *packed.Reader) { r.Bytes(1000) }, "middle"},
		"first error": {[]byte{2, 9}, func(r *packed.Reader) {
			r.Bool()
			r.Len(3)
			r.Fail("late")
		}, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			r := packed.NewReader(test.b)
			test.read(r)
			if err := r.Done(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if r.Err() == nil && name != "too many" {
				t.Error("the error did not stick")
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := packed.NewReader(b)
		n := r.Count(1)
		if n > len(b) {
			t.Fatalf("count of %d elements in %d bytes", n, len(b))
		}
		for range n {
			if v := r.Bytes(1 << 20); len(v) > len(b) {
				t.Fatalf("%d bytes out of %d", len(v), len(b))
			}
		}
		r.Int()
		r.Message(new(streampb.Run))
		if r.Err() != nil && (r.Byte() != 0 || r.Len(5) != 0 || r.Done() == nil) {
			t.Fatal("reads on behind an error")
		}
	})
}
