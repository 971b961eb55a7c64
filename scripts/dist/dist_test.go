package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

const repository = "../.."

// TestDist makes a release twice, in different folders, or a trial of one if PORESTREAM_DIST_TRIAL is set, and uses what is in it as
// somebody would who has nothing else.
func TestDist(t *testing.T) {
	names := os.Getenv("PORESTREAM_DIST")
	if names == "" {
		t.Skip("PORESTREAM_DIST names no platforms; make dist-check does")
	}
	first, second := t.TempDir(), t.TempDir()
	outs := []string{first, second}
	trial := os.Getenv("PORESTREAM_DIST_TRIAL") != ""
	if trial {
		outs = outs[:1]
	}
	for _, out := range outs {
		require.NoError(t, dist(t.Context(), repository, out, strings.Split(names, ","), trial))
	}
	files, err := regularFiles(first)
	require.NoError(t, err)
	if !trial {
		again, err := regularFiles(second)
		require.NoError(t, err)
		require.Equal(t, files, again)
	}
	for _, name := range files {
		if !trial {
			a, err := hashFile(filepath.Join(first, name))
			require.NoError(t, err)
			b, err := hashFile(filepath.Join(second, name))
			require.NoError(t, err)
			assert.Equal(t, a, b, "%s has other bytes the second time", name)
		}
		if strings.HasSuffix(name, ".cdx.json") {
			data, err := os.ReadFile(filepath.Join(first, name))
			require.NoError(t, err)
			checkSBOM(t, data)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = first
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	i := slices.IndexFunc(files, func(name string) bool { return strings.HasSuffix(name, "-linux-"+runtime.GOARCH+".tar.gz") })
	require.GreaterOrEqual(t, i, 0)
	use(t, filepath.Join(first, files[i]), !trial)
}

// use unpacks a tarball and runs its programs in an empty folder with an empty
// environment. With gpu it was made with operators for GPUs, where the platform has some.
func use(t *testing.T, tarball string, gpu bool) {
	where, empty := t.TempDir(), t.TempDir()
	out, err := exec.CommandContext(t.Context(), "tar", "-xzf", tarball, "-C", where).CombinedOutput()
	require.NoError(t, err, "%s", out)
	root := filepath.Join(where, strings.TrimSuffix(filepath.Base(tarball), ".tar.gz"))
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	sums.Dir = root
	out, err = sums.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func(program string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", program), args...)
		cmd.Dir, cmd.Env = empty, []string{"TMPDIR=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", program, args, out)
		return string(out)
	}
	head, err := output(t.Context(), repository, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	for _, program := range programs {
		about := run(program, "--version")
		assert.Contains(t, about, "("+head[:12]+")")
		assert.NotContains(t, about, "unusable")
	}
	assert.Contains(t, run("pore", "version"), filepath.Join(root, "lib", "libonnxruntime.so"))
	assert.Contains(t, run("pore", "model", "check", filepath.Join(root, "models", "r9.4-fast")), "r9.4-fast")
	assert.Contains(t, run("pore", "demo", "--pace", "max"), "p.Trp56Ter")
	// The operators are found and run, on the CPU.
	assert.Contains(t, run("pore", "model", "verify", "--device", "cpu", "--gpu-kernels", "always", filepath.Join(root, "models", "r9.4-fast")), "Porestream's kernels")
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	assert.Empty(t, entries, "the demo left something behind")
	for _, path := range []string{
		"LICENSE", "NOTICE", "README.md", "sbom.cdx.json", "docs/develop/release.md", "deploy/compose/compose.yaml", "deploy/prometheus/rules.yml",
		"licences/README.md", "licences/onnxruntime/ThirdPartyNotices.txt", "licences/minimap2/LICENSE.txt", "licences/zig/libcxx/LICENSE.TXT", "lib/libporestream_ops.so", "licences/data/lambda/GPL-3.0.txt",
		"licences/models/r9.4-fast/MODEL_CARD.md", "share/man/man1/pore-run.1", "share/bash-completion/completions/ingest", "share/zsh/site-functions/_pore",
		"share/fish/vendor_completions.d/processor.fish",
	} {
		_, err := existing(filepath.Join(root, path))
		assert.NoError(t, err)
	}
	_, err = existing(filepath.Join(root, "licences", "nvidia-cuda-runtime", "License.txt"))
	assert.Equal(t, gpu && runtime.GOARCH == "amd64", err == nil, "CUDA's runtime is linked where its licence is: %v", err)
}

// TestLinkedModulesHaveLicences finds a new dependency whose licence is missing, not
// known, or none that may be linked.
func TestLinkedModulesHaveLicences(t *testing.T) {
	linked, goroot, err := linkedFolders(t.Context(), repository)
	require.NoError(t, err)
	require.Greater(t, len(linked), 20)
	linked["Go itself"] = folders{root: goroot}
	for name, f := range linked {
		if name == "github.com/porestream/porestream" {
			continue
		}
		texts, err := licenceTexts(f.root, f.packages)
		if !assert.NoError(t, err, name) {
			continue
		}
		ids := identify(texts)
		assert.NotEmpty(t, ids, "%s: no known licence", name)
		for _, id := range ids {
			assert.Contains(t, permissive, id, "%s may not be linked", name)
		}
	}
}

func TestIdentify(t *testing.T) {
	const bsd = "Redistribution and use in source and\n * binary forms, with or without"
	for name, c := range map[string]struct {
		in   []string
		want []string
	}{
		"MIT, broken anew":  {[]string{"Permission is hereby granted, free of charge,\n# to any person   obtaining a copy of"}, []string{"MIT"}},
		"Apache with comma": {[]string{"Apache License, Version 2.0, January 2004"}, []string{"Apache-2.0"}},
		"Apache title":      {[]string{"   Apache License\n     Version 2.0, January 2004"}, []string{"Apache-2.0"}},
		"BSD with two":      {[]string{bsd}, []string{"BSD-2-Clause"}},
		"BSD with three":    {[]string{bsd + " ... to endorse or promote products derived from"}, []string{"BSD-3-Clause"}},
		"two files":         {[]string{"Apache License Version 2.0", bsd, bsd}, []string{"Apache-2.0", "BSD-2-Clause"}},
		"copyleft":          {[]string{"GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007"}, []string{"GPL-3.0-only"}},
		"nothing known":     {[]string{"All rights reserved."}, nil},
	} {
		var texts []text
		for _, s := range c.in {
			texts = append(texts, text{data: []byte(s)})
		}
		assert.Equal(t, c.want, identify(texts), name)
	}
}

func TestNeeds(t *testing.T) {
	library := filepath.Join(repository, ".deps", "onnxruntime", "libonnxruntime.so")
	if _, err := existing(library); err != nil {
		t.Skip("ONNX Runtime is not there: run make deps")
	}
	require.NoError(t, checkNeeds(library, minimumGlibc))
	require.ErrorContains(t, checkNeeds(library, "2.17"), "it is to run with 2.17")
	_, err := readNeeds("dist_test.go")
	require.ErrorContains(t, err, "dist_test.go")
	for _, c := range []struct {
		a, b string
		want bool
	}{{"2.28", "2.28", false}, {"2.34", "2.28", true}, {"2.4", "2.28", false}, {"2.28.1", "2.28", true}, {"3", "2.28", true}, {"2.3", "", true}} {
		assert.Equal(t, c.want, later(c.a, c.b), "%s after %s", c.a, c.b)
	}
}

func TestTarballDependsOnContentsAlone(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	files := map[string]string{"bin/pore": "program", "README.md": "text", "docs/a/b.md": "more"}
	pack := func(mode os.FileMode, modified time.Time) []byte {
		dir := filepath.Join(t.TempDir(), "porestream-1")
		for name, content := range files {
			path := filepath.Join(dir, name)
			require.NoError(t, writeFile(path, []byte(content)))
			require.NoError(t, os.Chmod(path, mode|map[bool]os.FileMode{true: 0o100}[strings.HasPrefix(name, "bin/")]))
			require.NoError(t, os.Chtimes(path, modified, modified))
		}
		out := filepath.Join(t.TempDir(), "x.tar.gz")
		require.NoError(t, writeTarball(out, dir, at))
		data, err := os.ReadFile(out)
		require.NoError(t, err)
		return data
	}
	data := pack(0o644, at)
	require.Equal(t, data, pack(0o600, at.Add(time.Hour)))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	var got []string
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		got = append(got, h.Name+" "+string(content)+" "+h.FileInfo().Mode().String())
		assert.True(t, h.ModTime.Equal(at) && h.Uid == 0 && h.Gid == 0 && h.Uname == "" && h.Gname == "", "%+v", h)
	}
	require.Equal(t, []string{"porestream-1/README.md text -rw-r--r--", "porestream-1/bin/pore program -rwxr-xr-x", "porestream-1/docs/a/b.md more -rw-r--r--"}, got)
}

func TestLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	require.ErrorContains(t, writeTarball(filepath.Join(t.TempDir(), "x.tar.gz"), dir, time.Now()), "link is not a regular file")
}

func TestShipped(t *testing.T) {
	for path, want := range map[string]bool{
		"README.md": true, "NOTICE": true, "go.mod": false, "Makefile": false, "docs/reference/commands.md": true, "docs/consume/consumer.py": true, "docs/docs_test.go": false, "stream/FORMAT.md": true,
		"models/r9.4-fast/model.onnx": true, "models/models.go": false, "modelfile/folder/folder.go": false, "testdata/lambda/reads.pod5": true,
		"testdata/lambda/segments.pb.gz": false, "testdata/sarscov2/genes.gff3": false, "deploy/compose/compose.yaml": true, "deploy/grafana/render.go": false,
		"deploy/grafana/dashboards/throughput.json": true, "deploy/composecheck/go.mod": false, "deploy/check.sh": false, "cmd/pore/main.go": false,
		"train/basecall/README.md": false,
	} {
		assert.Equal(t, want, shipped(path), path)
	}
}

func TestTargets(t *testing.T) {
	require.ErrorContains(t, dist(t.Context(), repository, t.TempDir(), []string{"windows/amd64"}, false), `no target "windows/amd64"`)
	foreign := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	require.ErrorContains(t, dist(t.Context(), repository, t.TempDir(), []string{"linux/" + foreign}, false), "name linux/"+runtime.GOARCH+" too")
	require.ErrorContains(t, dist(t.Context(), repository, t.TempDir(), []string{"linux/" + runtime.GOARCH, "linux/" + foreign}, true), "not of linux/"+foreign)
}

func TestSBOM(t *testing.T) {
	src := source{commit: strings.Repeat("a1", 20), version: "0.1.0", time: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	parts := []part{
		{kind: goModule, name: "github.com/a/b", version: "v1.2.3", purl: "pkg:golang/github.com/a/b@v1.2.3", spdx: []string{"Apache-2.0", "MIT"}, users: []string{"pore"}},
		{kind: goModule, name: "std", version: "1.26.8", purl: "pkg:golang/std@1.26.8", spdx: []string{"BSD-3-Clause"}, about: "<Go>"},
		{kind: nativeLibrary, name: "onnxruntime", version: "1.31.1", purl: "pkg:pypi/onnxruntime@1.31.1", spdx: []string{"MIT"}, sha256: strings.Repeat("0f", 32), hashOf: "lib"},
		{kind: model, name: "r9.4-fast", spdx: []string{"Apache-2.0"}, sha256: strings.Repeat("1e", 32), hashOf: "model.onnx", users: []string{"pore", "processor"}},
		{kind: data, name: "lambda", spdx: []string{"GPL-3.0-only"}, users: []string{"pore"}},
		{kind: nativeLibrary, name: "zig", version: "0.17.1", purl: "pkg:pypi/ziglang@0.17.1", spdx: []string{"MIT", llvmLicence}, users: []string{"processor"}},
		{kind: nativeLibrary, name: "nvidia-cuda-runtime", version: "13.0.96", purl: "pkg:pypi/nvidia-cuda-runtime@13.0.96", spdx: []string{cudaLicence}, users: []string{"processor"}},
	}
	encoded, err := writeSBOM(src, targets[0], parts)
	require.NoError(t, err)
	again, err := writeSBOM(src, targets[0], parts)
	require.NoError(t, err)
	require.Equal(t, encoded, again)
	bom := checkSBOM(t, encoded)
	require.Len(t, *bom.Components, len(programs)+len(parts))
	require.Equal(t, "porestream", bom.Metadata.Component.Name)
	for _, d := range *bom.Dependencies {
		if d.Ref == "program:ingest" {
			require.Equal(t, []string{"pkg:golang/std@1.26.8", "pkg:pypi/onnxruntime@1.31.1"}, *d.Dependencies)
		}
	}
}

// checkSBOM checks that a bill holds together, and with CycloneDX's own library that
// it is one.
func checkSBOM(t *testing.T, encoded []byte) *cdx.BOM {
	t.Helper()
	bom := new(cdx.BOM)
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(encoded), cdx.BOMFileFormatJSON).Decode(bom))
	refs := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, c := range *bom.Components {
		assert.False(t, refs[c.BOMRef], "%s is there twice", c.BOMRef)
		refs[c.BOMRef] = true
		assert.NotEmpty(t, *c.Licenses, c.Name)
	}
	assert.Len(t, *bom.Dependencies, len(refs))
	for _, d := range *bom.Dependencies {
		on := []string{d.Ref}
		if d.Dependencies != nil {
			on = append(on, *d.Dependencies...)
		}
		for _, ref := range on {
			assert.True(t, refs[ref], "%s is no component", ref)
		}
	}
	t.Run("CycloneDX", func(t *testing.T) {
		python := testenv.Python(t, "PORESTREAM_SBOM_PYTHON", "'cyclonedx-python-lib[json-validation]'", "cyclonedx", "jsonschema")
		cmd := exec.CommandContext(t.Context(), python, "-c", `
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(str(fault) if fault else 0)`)
		cmd.Stdin = bytes.NewReader(encoded)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return bom
}
