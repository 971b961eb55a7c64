package hdf5

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
)

// fixtures are files that h5py has written; see oracle.py beside them.
const fixtures = "../fast5/testdata/"

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(fixtures + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// walk visits every object once and reads all that it has; it returns the paths of
// datasets, all paths with their attributes, and what went wrong.
func walk(f *File, check func(what string)) (datasets, all []string, errs []error) {
	seen := make(map[uint64]bool)
	var visit func(path string, o *Object)
	w := new(Workspace)
	visit = func(path string, o *Object) {
		if seen[o.Address()] || len(seen) > 200 {
			return
		}
		seen[o.Address()] = true
		attributes, err := o.Attributes()
		errs = append(errs, err)
		all = append(all, fmt.Sprint(path, attributes))
		check("attributes")
		if o.IsDataset() {
			d, err := o.Dataset()
			if err == nil {
				_, err = d.AppendInt16(nil, w)
				datasets = append(datasets, path)
			}
			check("data")
			errs = append(errs, err)
			_, _ = o.Floats()
			check("floats")
		}
		links, err := o.Links()
		errs = append(errs, err)
		check("links")
		for _, l := range links {
			child, err := o.Follow(l)
			errs = append(errs, err)
			check("object")
			if err == nil {
				visit(path+"/"+l.Name, child)
			}
		}
	}
	root, err := f.Root()
	errs = append(errs, err)
	if err == nil {
		visit("", root)
	}
	return datasets, all, slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func TestWalk(t *testing.T) {
	files, err := filepath.Glob(fixtures + "*.fast5")
	if err != nil || len(files) < 12 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		f, err := Open(read(t, filepath.Base(path)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		datasets, _, errs := walk(f, func(string) {})
		switch name := filepath.Base(path); {
		case name == "lzf.fast5":
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), "is packed with filter 32000 (lzf), which is not supported") {
				t.Errorf("%s: %v", name, errs)
			}
		case name == "other.fast5":
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), "is of class 1, not of integers") {
				t.Errorf("%s: %v", name, errs)
			}
		case len(errs) > 0 || len(datasets) == 0:
			t.Errorf("%s: %d datasets, %v", name, len(datasets), errs)
		}
	}
}

// TestCut cuts files short at every byte.
func TestCut(t *testing.T) {
	for _, name := range []string{"tiny_vbz.fast5", "tiny_growing.fast5"} {
		file := read(t, name)
		for n := range file {
			if _, err := Open(file[:n:n]); err == nil || n > 16 && !errors.Is(err, ErrTruncated) {
				t.Fatalf("%s: %d of %d bytes: %v", name, n, len(file), err)
			}
		}
	}
}

// TestChecksums flips a bit of each byte of a file whose metadata have checksums:
// whatever can be read is what was written.
func TestChecksums(t *testing.T) {
	file := read(t, "tiny_growing.fast5")
	dump := func(file []byte) string {
		f, err := Open(file)
		if err != nil {
			return ""
		}
		_, all, errs := walk(f, func(string) {})
		if len(errs) > 0 {
			return ""
		}
		return strings.Join(all, "\n")
	}
	want := dump(file)
	changed := 0
	for i := range file {
		file[i] ^= 1 << (i % 8)
		if got := dump(file); got != "" && got != want {
			t.Fatalf("byte %d: %s, want %s", i, got, want)
		} else if got == "" {
			changed++
		}
		file[i] ^= 1 << (i % 8)
	}
	if changed < len(file)/3 {
		t.Errorf("only %d of %d flipped bits were seen", changed, len(file))
	}
}

// TestCircles makes links that lead back: nothing may run forever.
func TestCircles(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(file []byte) // breaks the file
	}{
		{"tree", func(b []byte) {
			// The first child of the root group's tree is the tree itself, one level up.
			at := strings.Index(string(b), "TREE")
			b[at+5] = 1
			put(b[at+32:], uint64(at))
		}},
		{"header", func(b []byte) {
			// A continuation of the root's header that leads to the header's messages.
			at := 96 + 16
			b[at], b[at+1] = msgContinuation, 0
			put(b[at+8:], uint64(at))
			put(b[at+16:], 24)
		}},
	} {
		file := read(t, "tiny_vbz.fast5")
		tc.make(file)
		f, err := Open(file)
		if err == nil {
			_, _, errs := walk(f, func(string) {})
			err = errors.Join(errs...)
		}
		if err == nil {
			t.Errorf("%s: no error", tc.name)
		}
	}
}

func put(b []byte, v uint64) {
	for i := range 8 {
		b[i] = byte(v >> (8 * i))
	}
}

// TestSoftLinks follows links to paths, in circles and out of the file.
func TestSoftLinks(t *testing.T) {
	f, err := Open(read(t, "tiny_vbz.fast5"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := f.Root()
	if err != nil {
		t.Fatal(err)
	}
	links, err := root.Links()
	if err != nil || len(links) != 1 {
		t.Fatal(links, err)
	}
	name := links[0].Name
	signal, err := root.Open(name + "/Raw/Signal")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := root.Follow(Link{Name: "x", soft: "/" + name + "/./Raw//Signal"}); err != nil || o.Address() != signal.Address() {
		t.Errorf("a soft link: %v", err)
	}
	if _, err := root.Follow(Link{Name: "x", soft: "nowhere"}); !NotThere(err) {
		t.Errorf("a soft link to nothing: %v", err)
	}
	if _, err := root.Follow(Link{Name: "x", outside: true}); err == nil || !strings.Contains(err.Error(), "external links are not supported") {
		t.Errorf("an external link: %v", err)
	}
	none := 0
	if _, err := root.follow(Link{Name: "x", soft: name}, &none); err == nil || !strings.Contains(err.Error(), "too many soft links") {
		t.Errorf("no more soft links: %v", err)
	}
}

// TestChecksumsOfOthers has values that others publish.
func TestChecksumsOfOthers(t *testing.T) {
	// Bob Jenkins' lookup3.c, driver5.
	if got := lookup3(nil); got != 0xdeadbeef {
		t.Errorf("lookup3 of nothing is %#x", got)
	}
	if got := lookup3([]byte("Four score and seven years ago")); got != 0x17770551 {
		t.Errorf("lookup3 of the address is %#x", got)
	}
	// The HDF5 library's test tchecksum.c.
	for _, tc := range []struct {
		b    []byte
		want uint32
	}{
		{[]byte{0}, 0}, {[]byte{0xff}, 0xff00ff00}, {[]byte{255, 255, 255, 255}, 0},
	} {
		if got := fletcher32(tc.b); got&0xffff%0xffff != tc.want&0xffff%0xffff || got>>16%0xffff != tc.want>>16%0xffff {
			t.Errorf("fletcher32(%v) is %#x, want %#x", tc.b, got, tc.want)
		}
	}
}

// allocated is what the process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// FuzzFile reads all of a file that may be anything; checksums are left aside, so that
// what lies behind them is reached.
func FuzzFile(f *testing.F) {
	files, err := filepath.Glob(fixtures + "*.fast5")
	if err != nil || len(files) < 12 {
		f.Fatal(files, err)
	}
	for _, path := range files {
		f.Add(read(f, filepath.Base(path)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := allocated()
		check := func(what string) {
			now := allocated()
			if now-before > 64<<20+4096*uint64(len(b)) {
				t.Fatalf("%s: %d bytes were allocated for a file of %d", what, now-before, len(b))
			}
			before = now
		}
		file, err := open(b, true)
		check("superblock")
		if err != nil {
			return
		}
		_, _, errs := walk(file, check)
		for _, err := range errs {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("an error of several lines: %q", err)
			}
		}
	})
}
