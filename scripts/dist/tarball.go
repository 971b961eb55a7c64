package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// regularFiles lists the files under a folder, relative to it, with slashes, by name. Anything but files and
// folders is an error.
func regularFiles(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// writeTarball packs a folder, under its own name. Its bytes depend on the names, the
// contents and the executable bits of the files and on the time, and on nothing else.
func writeTarball(path, dir string, at time.Time) error {
	names, err := regularFiles(dir)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the tarball: %w", err)
	}
	defer f.Close()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("making the tarball: %w", err)
	}
	archive := tar.NewWriter(zip)
	for _, name := range names {
		if err := addFile(archive, dir, name, at); err != nil {
			return fmt.Errorf("packing %s: %w", name, err)
		}
	}
	for _, c := range []io.Closer{archive, zip, f} {
		if err := c.Close(); err != nil {
			return fmt.Errorf("finishing the tarball: %w", err)
		}
	}
	return nil
}

func addFile(archive *tar.Writer, dir, name string, at time.Time) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	// Owners by number only: names are the building machine's.
	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.Base(dir) + "/" + name, Size: info.Size(), Mode: mode, ModTime: at.Truncate(time.Second), Format: tar.FormatPAX,
	}); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}

// checksums are lines for sha256sum --check.
func checksums(dir string, names []string) ([]byte, error) {
	var b bytes.Buffer
	for _, name := range names {
		sum, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return b.Bytes(), nil
}

// hashFile is a file's SHA-256 in hexadecimal.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hashing: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing %s: %w", path, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
