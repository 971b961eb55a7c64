package main

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// systemLibraries are the shared libraries that every Linux with glibc and a C++ runtime has.
var systemLibraries = []string{
	"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2",
	"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libstdc++.so.6", "libgcc_s.so.1",
}

// needs is what a program or a library asks of the system it runs on.
type needs struct {
	libraries []string
	versions  map[string]string // the latest symbol version by its name: GLIBC, GLIBCXX, CXXABI, GCC
}

func readNeeds(path string) (needs, error) {
	f, err := elf.Open(path)
	if err != nil {
		return needs{}, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	defer f.Close()
	n := needs{versions: map[string]string{}}
	if n.libraries, err = f.ImportedLibraries(); err != nil {
		return needs{}, fmt.Errorf("%s: libraries: %w", filepath.Base(path), err)
	}
	needed, err := f.DynamicVersionNeeds()
	if err != nil {
		return needs{}, fmt.Errorf("%s: versions of symbols: %w", filepath.Base(path), err)
	}
	for _, library := range needed {
		for _, v := range library.Needs {
			if name, number, ok := strings.Cut(v.Dep, "_"); ok && later(number, n.versions[name]) {
				n.versions[name] = number
			}
		}
	}
	return n, nil
}

// checkNeeds refuses what a system with a glibc of the given version lacks.
func checkNeeds(path, glibc string) error {
	n, err := readNeeds(path)
	if err != nil {
		return err
	}
	for _, library := range n.libraries {
		if !slices.Contains(systemLibraries, library) {
			return fmt.Errorf("%s needs %s, which not every system has", filepath.Base(path), library)
		}
	}
	if later(n.versions["GLIBC"], glibc) {
		return fmt.Errorf("%s needs glibc %s; it is to run with %s", filepath.Base(path), n.versions["GLIBC"], glibc)
	}
	say("%s needs glibc %s", filepath.Base(path), n.versions["GLIBC"])
	return nil
}

// later reports whether version a, of numbers with dots, comes after b. A part that is no number counts as 0.
func later(a, b string) bool {
	parse := func(s string) (out []int) {
		for part := range strings.SplitSeq(s, ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(parse(a), parse(b)) > 0
}
