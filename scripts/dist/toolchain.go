package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Zig's C compiler has the symbols of every glibc since 2.17 and links for both
// platforms, so that what runs on an old system can be built on any.
const zigVersion = "0.17.1"

var zigHashes = []string{
	"ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54", // x86-64
	"b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e", // arm64
}

// tools is a C toolchain for all targets.
type tools struct{ dir string }

func (t tools) zig() string              { return filepath.Join(t.dir, "zig-"+zigVersion, "ziglang") }
func (t tools) cc(target target) string  { return filepath.Join(t.dir, "cc-"+target.goarch) }
func (t tools) cxx(target target) string { return filepath.Join(t.dir, "cxx-"+target.goarch) }
func (t tools) ar() string               { return filepath.Join(t.dir, "ar") }
func (t tools) cuda() string             { return filepath.Join(t.dir, "cuda") } // NVIDIA's compiler; scripts/kernels.sh fetches it

// toolchain fetches Zig by its hash, unless it is there, and makes the commands that
// stand for a compiler and an archiver.
func toolchain(ctx context.Context, dir string) (tools, error) {
	t := tools{dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return t, fmt.Errorf("making the folder of the toolchain: %w", err)
	}
	if _, err := existing(filepath.Join(t.zig(), "zig")); err != nil {
		say("fetching the C compiler of Zig %s", zigVersion)
		pinned := "ziglang==" + zigVersion
		for _, hash := range zigHashes {
			pinned += " --hash=sha256:" + hash
		}
		requirements := filepath.Join(dir, "requirements.txt")
		if err := writeFile(requirements, []byte(pinned+"\n")); err != nil {
			return t, err
		}
		if err := run(ctx, dir, nil, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
			"--only-binary", ":all:", "--upgrade", "--target", filepath.Dir(t.zig()), "-r", requirements); err != nil {
			return t, err
		}
	}
	zig := filepath.Join(t.zig(), "zig")
	scripts := map[string]string{t.ar(): `ar "$@"`}
	for _, target := range targets {
		scripts[t.cc(target)] = fmt.Sprintf(`cc -target %s-linux-gnu.%s "$@"`, target.machine, minimumGlibc)
		scripts[t.cxx(target)] = fmt.Sprintf(`c++ -target %s-linux-gnu.%s "$@"`, target.machine, minimumGlibc)
	}
	for path, command := range scripts {
		if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' %s\n", zig, command), 0o755); err != nil {
			return t, fmt.Errorf("writing the toolchain: %w", err)
		}
	}
	return t, nil
}

// existing returns the path if there is a file.
func existing(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("searching for %s: %w", filepath.Base(path), err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	return path, nil
}
