package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall/kernels"
)

var programs = []string{"ingest", "pore", "processor"}

// sbomName is the file of a tarball with its bill of materials.
const sbomName = "sbom.cdx.json"

// shipped reports whether a file of the repository is in the tarball, at the same place:
// documents, the data of the demo, files for deployment and the models.
func shipped(path string) bool {
	top, rest, inside := strings.Cut(path, "/")
	if !inside {
		return slices.Contains([]string{"README.md", "DESIGN.md", "CHANGELOG.md", "LICENSE", "NOTICE"}, path)
	}
	switch top {
	case "docs":
		return filepath.Ext(path) != ".go"
	case "models":
		return strings.Contains(rest, "/") && filepath.Ext(path) != ".go"
	case "testdata":
		return strings.HasPrefix(rest, "lambda/") && rest != "lambda/segments.pb.gz"
	case "deploy":
		// What is built or checked from source needs the source.
		return !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sh") && !strings.Contains(rest, "composecheck") &&
			!strings.Contains(rest, "testdata") && filepath.Base(path) != "Dockerfile"
	}
	return path == "stream/FORMAT.md"
}

// assemble lays out the tarball's content in the folder stage.
func assemble(ctx context.Context, src source, t target, tools tools, tree, share, stage string) error {
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".deps" || name == "out") {
			return fs.SkipDir
		}
		if entry.Type().IsRegular() && shipped(filepath.ToSlash(name)) {
			return copyFile(filepath.Join(stage, name), path, mode(entry))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("copying from the repository: %w", err)
	}
	if err := os.CopyFS(filepath.Join(stage, "share"), os.DirFS(share)); err != nil {
		return fmt.Errorf("copying man pages and completions: %w", err)
	}
	binaries := []string{filepath.Join("lib", "libonnxruntime.so"), filepath.Join("lib", kernels.LibraryName)}
	for i, from := range []string{filepath.Join("onnxruntime", "libonnxruntime.so"), filepath.Join("kernels", "release", kernels.LibraryName)} {
		if err := copyFile(filepath.Join(stage, binaries[i]), filepath.Join(tree, ".deps", from), 0o755); err != nil {
			return err
		}
	}
	for _, program := range programs {
		name := filepath.Join("bin", program)
		if err := copyFile(filepath.Join(stage, name), filepath.Join(tree, "out", program), 0o755); err != nil {
			return err
		}
		binaries = append(binaries, name)
	}
	for _, name := range binaries {
		if t.trial {
			break // they are for this machine
		}
		if err := checkNeeds(filepath.Join(stage, name), minimumGlibc); err != nil {
			return err
		}
	}
	parts, err := findParts(ctx, tree, filepath.Join(stage, "bin"), t, tools)
	if err != nil {
		return err
	}
	if err := writeLicences(filepath.Join(stage, "licences"), parts); err != nil {
		return err
	}
	bom, err := writeSBOM(src, t, parts)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(stage, sbomName), bom); err != nil {
		return err
	}
	files, err := regularFiles(stage)
	if err != nil {
		return err
	}
	sums, err := checksums(stage, files)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(stage, "SHA256SUMS"), sums)
}

// mode is 0755 for what can be executed and 0644 for anything else, whatever the umask.
func mode(entry fs.DirEntry) fs.FileMode {
	if info, err := entry.Info(); err == nil && info.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	return nil
}

func copyFile(to, from string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying: %w", err)
	}
	if err := writeFile(to, data); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}
