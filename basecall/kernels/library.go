package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LibraryName is what the operators' library is called.
const LibraryName = "libporestream_ops.so"

// LibraryEnv is the environment variable that names the operators' library.
const LibraryEnv = "PORESTREAM_KERNELS"

// FindLibrary returns the path of the operators' library: $PORESTREAM_KERNELS, or the first that
// exists beside the executable, in ../lib and, where make kernels puts it, in ../.deps/kernels.
func FindLibrary() (string, error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		if !isFile(path) {
			return "", fmt.Errorf("library of kernels %s (from %s) is not a file", path, LibraryEnv)
		}
		return path, nil
	}
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("locating the executable: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	dir := filepath.Dir(executable)
	candidates := []string{
		filepath.Join(dir, LibraryName),
		filepath.Join(dir, "..", "lib", LibraryName),
		filepath.Join(dir, "..", ".deps", "kernels", LibraryName),
	}
	for _, path := range candidates {
		if isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was not found: tried %s; build it with make kernels, or name it with %s",
		LibraryName, strings.Join(candidates, ", "), LibraryEnv)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
