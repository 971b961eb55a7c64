package deploytest

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// The scripts that build, install and check what is deployed can be run and are shell;
// what some of them need, such as root, is not everywhere.
func TestScriptsAreShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash: ", err)
	}
	scripts := 0
	err = filepath.WalkDir(filepath.Join(testenv.Root(t), "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".sh") {
			return err
		}
		scripts++
		info, err := d.Info()
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&0o111, "%s can't be run", path)
		out, err := exec.CommandContext(t.Context(), bash, "-n", path).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		return nil
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, scripts, 5)
}
