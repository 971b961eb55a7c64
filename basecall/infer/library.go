package infer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// libraryName is what ONNX Runtime's shared library is called on Linux.
const libraryName = "libonnxruntime.so"

// LibraryEnv is the environment variable that names ONNX Runtime's shared library.
const LibraryEnv = "ORT_LIB"

// FindLibrary returns the path of ONNX Runtime's shared library: explicit if it
// isn't empty, otherwise $ORT_LIB, otherwise the first that exists of
// libonnxruntime.so beside the executable, in ../lib and in
// ../.deps/onnxruntime from there. Test executables, which lie in a temporary
// folder, search .deps/onnxruntime of the module that they test.
func FindLibrary(explicit string) (string, error) {
	if explicit != "" {
		return existingLibrary(explicit, "")
	}
	if path := os.Getenv(LibraryEnv); path != "" {
		return existingLibrary(path, " (from "+LibraryEnv+")")
	}
	candidates, err := libraryCandidates()
	if err != nil {
		return "", err
	}
	for _, path := range candidates {
		if isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("ONNX Runtime was not found: tried %s; run make deps, or name the library with %s",
		strings.Join(candidates, ", "), LibraryEnv)
}

// existingLibrary returns the path that a user chose if there is a file.
func existingLibrary(path, source string) (string, error) {
	if !isFile(path) {
		return "", fmt.Errorf("ONNX Runtime library %s%s is not a file", path, source)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// libraryCandidates lists the places to search. The working directory is none of
// them except for tests: code is not to be loaded from wherever a user stands.
func libraryCandidates() ([]string, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("locating the executable: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	dir := filepath.Dir(executable)
	candidates := []string{
		filepath.Join(dir, libraryName),
		filepath.Join(dir, "..", "lib", libraryName),
		filepath.Join(dir, "..", ".deps", "onnxruntime", libraryName),
	}
	if filepath.Ext(executable) == ".test" {
		if root, ok := moduleRoot(); ok {
			candidates = append(candidates, filepath.Join(root, ".deps", "onnxruntime", libraryName))
		}
	}
	return candidates, nil
}

// moduleRoot returns the nearest folder with a go.mod, from the working directory up.
func moduleRoot() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if isFile(filepath.Join(dir, "go.mod")) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
