package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/models"
)

// part is something that a tarball has in it and that others made, or a model.
type part struct {
	kind    kind
	name    string // a module's path, or what the part is called
	version string
	purl    string   // package URL; empty: it has none
	sha256  string   // of what hash names; empty: not known
	hashOf  string   // what sha256 is of
	spdx    []string // identifiers of its licences
	texts   []text
	users   []string // programs that it is linked into or works for; empty: all
	about   string
}

type kind int

const (
	goModule kind = iota
	nativeLibrary
	model
	data
)

// text is a file with a licence or a notice.
type text struct {
	name string // below the part's folder
	data []byte
}

const goVersionPrefix = "go"

// findParts lists all parts of the programs in bin, which were built from tree.
func findParts(ctx context.Context, tree, bin string, t target, tools tools) ([]part, error) {
	modules := map[string]*part{}
	var goVersion string
	for _, program := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(bin, program))
		if err != nil {
			return nil, fmt.Errorf("reading what %s was built from: %w", program, err)
		}
		goVersion = strings.TrimPrefix(info.GoVersion, goVersionPrefix)
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				return nil, fmt.Errorf("%s is replaced: a release is made of published modules", dep.Path)
			}
			m := modules[dep.Path]
			if m == nil {
				m = &part{kind: goModule, name: dep.Path, version: dep.Version, purl: "pkg:golang/" + dep.Path + "@" + dep.Version}
				modules[dep.Path] = m
			}
			m.users = append(m.users, program)
		}
	}
	linked, goroot, err := linkedFolders(ctx, tree)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, m := range modules {
		folders, ok := linked[m.name]
		if !ok {
			return nil, fmt.Errorf("%s is linked but go list does not know it", m.name)
		}
		if m.texts, err = licenceTexts(folders.root, folders.packages); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		parts = append(parts, *m)
	}
	std := part{kind: goModule, name: "std", version: goVersion, purl: "pkg:golang/std@" + goVersion, about: "Go's standard library and run time"}
	if std.texts, err = licenceTexts(goroot, nil); err != nil {
		return nil, fmt.Errorf("go: %w", err)
	}
	native, err := nativeParts(tree, t, tools)
	if err != nil {
		return nil, err
	}
	shipped, err := modelParts(tree)
	if err != nil {
		return nil, err
	}
	parts = slices.Concat(parts, []part{std}, native, shipped)
	for i := range parts {
		p := &parts[i]
		if p.spdx == nil {
			p.spdx = identify(p.texts)
		}
		if len(p.spdx) == 0 {
			return nil, fmt.Errorf("%s: no known licence in %d texts", p.name, len(p.texts))
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return strings.Compare(fmt.Sprint(int(a.kind), a.name), fmt.Sprint(int(b.kind), b.name))
	})
	return parts, nil
}

// folders are where a module's source is.
type folders struct {
	root     string
	packages []string // that are linked
}

// linkedFolders says where the packages are that the programs consist of, by module,
// and where Go's own are.
func linkedFolders(ctx context.Context, tree string) (map[string]folders, string, error) {
	goroot, err := output(ctx, tree, "go", "env", "GOROOT")
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Module", "./cmd/...")
	cmd.Dir, cmd.Stderr = tree, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, "", fmt.Errorf("listing linked packages: %w", err)
	}
	linked := map[string]folders{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			Dir    string
			Module *struct{ Path, Dir string }
		}
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return linked, goroot, nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("listing linked packages: %w", err)
		}
		if pkg.Module != nil {
			f := linked[pkg.Module.Path]
			f.root, f.packages = pkg.Module.Dir, append(f.packages, pkg.Dir)
			linked[pkg.Module.Path] = f
		}
	}
}

// licenceFile matches names of files with licences and notices.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents|authors|thirdparty|third_party)([-_.].*)?$`)

// licenceTexts reads the licences and notices of a module: those at its root, and those
// in the folders on the way to its packages.
func licenceTexts(root string, packages []string) ([]text, error) {
	dirs := []string{root}
	for _, dir := range packages {
		for ; strings.HasPrefix(dir, root+string(filepath.Separator)); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	var texts []text
	for _, dir := range slices.Compact(dirs) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("searching for licences: %w", err)
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			name, err := filepath.Rel(root, filepath.Join(dir, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("naming a licence: %w", err)
			}
			licence, err := readLicence(root, filepath.ToSlash(name))
			if err != nil {
				return nil, err
			}
			texts = append(texts, licence)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("no licence in %s", root)
	}
	return texts, nil
}

// nativeParts are ONNX Runtime, minimap2, what the C compiler adds and, where there are kernels for GPUs, CUDA's runtime.
func nativeParts(tree string, t target, tools tools) ([]part, error) {
	deps := filepath.Join(tree, ".deps")
	ort := part{kind: nativeLibrary, name: "onnxruntime", users: []string{"pore", "processor"}, spdx: []string{"MIT"}, hashOf: "libonnxruntime.so",
		about: "ONNX Runtime, CPU build; its own parts are in its ThirdPartyNotices.txt"}
	minimap2 := part{kind: nativeLibrary, name: "minimap2", users: []string{"pore", "processor"}, spdx: []string{"MIT"}, hashOf: "mappy source package",
		about: "linked statically, from the source package of mappy"}
	var err error
	if ort.version, _, err = stamp(filepath.Join(deps, "onnxruntime")); err != nil {
		return nil, err
	}
	ort.purl = "pkg:pypi/onnxruntime@" + ort.version
	if ort.sha256, err = hashFile(filepath.Join(deps, "onnxruntime", "libonnxruntime.so")); err != nil {
		return nil, err
	}
	if minimap2.version, minimap2.sha256, err = stamp(filepath.Join(deps, "minimap2")); err != nil {
		return nil, err
	}
	minimap2.purl = "pkg:pypi/mappy@" + minimap2.version
	zig := part{kind: nativeLibrary, name: "zig", version: zigVersion, purl: "pkg:pypi/ziglang@" + zigVersion, spdx: []string{"MIT", llvmLicence},
		about: "its C compiler's run time is linked into the programs, and LLVM's of C++ into " + kernels.LibraryName}
	ofLLVM := filepath.Join(tools.zig(), "lib")
	for _, file := range []struct {
		part   *part
		folder string
		name   string // below the folder, and the part's
	}{
		{&ort, filepath.Join(deps, "onnxruntime"), "LICENSE"}, {&ort, filepath.Join(deps, "onnxruntime"), "ThirdPartyNotices.txt"},
		{&minimap2, filepath.Join(deps, "minimap2", "include"), "LICENSE.txt"},
		{&zig, tools.zig(), "LICENSE"}, {&zig, ofLLVM, "libcxx/LICENSE.TXT"}, {&zig, ofLLVM, "libcxxabi/LICENSE.TXT"}, {&zig, ofLLVM, "libunwind/LICENSE.TXT"},
	} {
		licence, err := readLicence(file.folder, file.name)
		if err != nil {
			return nil, err
		}
		file.part.texts = append(file.part.texts, licence)
	}
	parts := []part{ort, minimap2, zig}
	if t.gpu {
		cuda, err := cudaPart(tree, tools)
		if err != nil {
			return nil, err
		}
		parts = append(parts, cuda)
	}
	return parts, nil
}

// readLicence reads a text by its name below a folder, which the part's has it by, too.
func readLicence(folder, name string) (text, error) {
	content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		return text{}, fmt.Errorf("reading a licence: %w", err)
	}
	return text{name, content}, nil
}

// llvmLicence is that of the libraries of C++ that come with Zig.
const llvmLicence = "Apache-2.0 WITH LLVM-exception"

// cudaLicence is how a bill of materials calls NVIDIA's licence, which SPDX has no identifier for.
const cudaLicence = "LicenseRef-NVIDIA-CUDA-EULA"

// cudaPart is CUDA's runtime, which is linked into the library of operators. NVIDIA's licence, in its Attachment A, lets
// libcudart_static.a be passed on within a program.
func cudaPart(tree string, tools tools) (part, error) {
	script, err := os.ReadFile(filepath.Join(tree, "scripts", "kernels.sh"))
	if err != nil {
		return part{}, fmt.Errorf("reading the version of CUDA: %w", err)
	}
	version := regexp.MustCompile(`(?m)^nvidia-cuda-runtime==(\S+)`).FindSubmatch(script)
	if version == nil {
		return part{}, errors.New("scripts/kernels.sh pins no nvidia-cuda-runtime")
	}
	p := part{kind: nativeLibrary, name: "nvidia-cuda-runtime", version: string(version[1]), purl: "pkg:pypi/nvidia-cuda-runtime@" + string(version[1]),
		spdx: []string{cudaLicence}, users: []string{"pore", "processor"}, hashOf: "libcudart_static.a",
		about: "linked statically into " + kernels.LibraryName + ", which a GPU alone has use for"}
	if p.sha256, err = hashFile(filepath.Join(tools.cuda(), "nvidia", "cu13", "lib", "libcudart_static.a")); err != nil {
		return part{}, err
	}
	licence, err := readLicence(filepath.Join(tools.cuda(), "nvidia_cuda_runtime-"+p.version+".dist-info", "licenses"), "License.txt")
	if err != nil {
		return part{}, err
	}
	if !bytes.Contains(licence.data, []byte("libcudart_static.a")) {
		return part{}, fmt.Errorf("%s of nvidia-cuda-runtime %s no longer lists libcudart_static.a: read whether it may be passed on", licence.name, p.version)
	}
	p.texts = []text{licence}
	return p, nil
}

// stamp reads the version and the hash that scripts/deps.sh has pinned.
func stamp(dir string) (version, hash string, err error) {
	line, err := os.ReadFile(filepath.Join(dir, ".version"))
	if err != nil {
		return "", "", fmt.Errorf("reading a dependency's version: %w", err)
	}
	version, hash, found := strings.Cut(strings.TrimSpace(string(line)), " ")
	if !found {
		return "", "", fmt.Errorf("%s: %q is no version and hash", dir, line)
	}
	return version, hash, nil
}

// modelParts are the shipped models, and the recording that the demo plays. They are
// Porestream's own; what they were made from is in the cards and the README beside them.
func modelParts(tree string) ([]part, error) {
	var parts []part
	for _, kind := range []folder.Kind{folder.Basecaller, folder.Variant} {
		for _, name := range models.Names(kind) {
			p := part{kind: model, name: name, hashOf: "model.onnx", spdx: []string{"Apache-2.0"}, users: []string{"pore", "processor"},
				about: fmt.Sprintf("%s model; what it was trained on is in its card", kind)}
			var err error
			if p.sha256, err = hashFile(filepath.Join(tree, "models", name, "model.onnx")); err != nil {
				return nil, err
			}
			card, err := firstOf(os.DirFS(filepath.Join(tree, "models", name)), "MODEL_CARD.md", "README.md")
			if err != nil {
				return nil, fmt.Errorf("model %s: %w", name, err)
			}
			p.texts = []text{card}
			parts = append(parts, p)
		}
	}
	lambda := part{kind: data, name: "lambda", hashOf: "reads.pod5", spdx: []string{"GPL-3.0-only"}, users: []string{"pore"},
		about: "recording of phage lambda that the demo plays: data, linked into no program"}
	var err error
	if lambda.sha256, err = hashFile(filepath.Join(tree, "testdata", "lambda", "reads.pod5")); err != nil {
		return nil, err
	}
	for _, path := range []string{"testdata/lambda/README.md", "scripts/dist/GPL-3.0.txt"} {
		content, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(path)))
		if err != nil {
			return nil, fmt.Errorf("the licence of testdata/lambda: %w", err)
		}
		lambda.texts = append(lambda.texts, text{filepath.Base(path), content})
	}
	return append(parts, lambda), nil
}

func firstOf(fsys fs.FS, names ...string) (text, error) {
	for _, name := range names {
		if content, err := fs.ReadFile(fsys, name); err == nil {
			return text{name, content}, nil
		}
	}
	return text{}, fmt.Errorf("none of %s is there", strings.Join(names, ", "))
}

// phrases are what licences say and no other licence does, in lower case with single
// blanks.
var phrases = []struct{ spdx, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"Zlib", "this software is provided 'as-is', without any express or implied warranty. in no event will the authors be held liable"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"GPL-3.0-only", "gnu general public license version 3"},
	{"GPL-2.0-only", "gnu general public license version 2"},
	{"LGPL-3.0-only", "gnu lesser general public license version 3"},
	{"AGPL-3.0-only", "gnu affero general public license version 3"},
	{"BSL-1.0", "boost software license - version 1.0"},
}

// permissive are the licences that what is linked may have.
var permissive = []string{"Apache-2.0", "MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "CC0-1.0", "BSL-1.0"}

// identify names the licences in texts by SPDX's identifiers, sorted.
func identify(texts []text) []string {
	var found []string
	for _, t := range texts {
		words := strings.Join(strings.FieldsFunc(strings.ToLower(string(t.data)), func(r rune) bool {
			return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '*' || r == '#' || r == '/'
		}), " ")
		for _, p := range phrases {
			if strings.Contains(strings.ReplaceAll(words, "license, version", "license version"), p.phrase) {
				found = append(found, p.spdx)
			}
		}
		if strings.Contains(words, "redistribution and use in source and binary forms") {
			if strings.Contains(words, "endorse or promote products derived") {
				found = append(found, "BSD-3-Clause")
			} else {
				found = append(found, "BSD-2-Clause")
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// folder is where a part's licences are in the tarball, below licences.
func (p part) folder() string {
	switch p.kind {
	case goModule:
		return "go/" + p.name + "@" + p.version
	case model:
		return "models/" + p.name
	case data:
		return "data/" + p.name
	}
	return p.name
}

// writeLicences writes the texts of all parts and a list of them.
func writeLicences(dir string, parts []part) error {
	var list strings.Builder
	list.WriteString("# Licences of the parts\n\nPorestream itself is under the Apache License 2.0: LICENSE and NOTICE beside this folder.\n\n" +
		"| part | version | licences | texts |\n|---|---|---|---|\n")
	for _, p := range parts {
		fmt.Fprintf(&list, "| %s | %s | %s | [%s](%s) |\n", p.name, p.version, strings.Join(p.spdx, " AND "), p.folder(), p.folder())
		for _, t := range p.texts {
			if err := writeFile(filepath.Join(dir, filepath.FromSlash(p.folder()), filepath.FromSlash(t.name)), t.data); err != nil {
				return err
			}
		}
	}
	return writeFile(filepath.Join(dir, "README.md"), []byte(list.String()))
}
