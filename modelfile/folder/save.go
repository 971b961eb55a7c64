package folder

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/porestream/porestream/wholefile"
)

// Save writes the files of a model, by name, into a folder that must not be there yet. The folder appears whole or not at all.
func Save(dir string, files map[string][]byte) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("saving model: %s exists already", dir)
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return fmt.Errorf("saving model: %w", err)
	}
	work, err := os.MkdirTemp(parent, ".model-")
	if err != nil {
		return fmt.Errorf("saving model: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("saving model: %w", err), os.RemoveAll(work))
		}
	}()
	for name, data := range files {
		if err := wholefile.Write(filepath.Join(work, name), func(w *bufio.Writer) error {
			_, err := w.Write(data)
			return err
		}); err != nil {
			return err
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	return wholefile.CommitFolder(work, dir)
}
