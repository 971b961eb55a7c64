package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// TestVulnerabilityCheck tries scripts/vuln.sh on databases of one advisory
// each: what makes a release stop, and what must not.
func TestVulnerabilityCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches and builds govulncheck: not with -short")
	}
	testenv.SkipUnchanged(t, "govulncheck")
	t.Parallel()
	const dependency = "github.com/prometheus/client_golang"
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", dependency).Output()
	require.NoError(t, err)
	linked := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")

	for _, tt := range []struct {
		name         string
		fixed        string // the first version without the fault; empty: none
		symbol       string
		ok           bool
		says, reason string
	}{
		{
			name: "called and not fixed", symbol: "NewDesc",
			says: "GO-2026-0001", reason: "a fault in what is called must stop a release",
		},
		{
			name: "called and fixed in what is linked", symbol: "NewDesc", fixed: linked,
			ok: true, says: "no known vulnerability", reason: "the version that is linked has the fix",
		},
		{
			name: "not called", symbol: "NotThere",
			ok: true, says: "no known vulnerability", reason: "a fault in what nobody calls stops nothing",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			database := advisory(t, dependency, tt.symbol, tt.fixed)
			got, err := vuln(database, "./metric")
			if tt.ok {
				require.NoError(t, err, "%s:\n%s", tt.reason, got)
			} else {
				require.Error(t, err, "%s:\n%s", tt.reason, got)
			}
			require.Contains(t, got, tt.says)
		})
	}

	t.Run("no database", func(t *testing.T) {
		nowhere := t.TempDir()
		got, err := vuln(nowhere, "./metric")
		require.Error(t, err, "what can't be checked isn't clean")
		require.Contains(t, got, "NOT CHECKED")
		got, err = vuln(nowhere, "--if-reached", "./metric")
		require.NoError(t, err, got)
		require.Contains(t, got, "NOT CHECKED", "nor is it passed over in silence")
	})
}

// vuln runs the script on a database in a folder and returns what it says.
func vuln(database string, arguments ...string) (string, error) {
	cmd := exec.Command(filepath.Join(root(), "scripts", "vuln.sh"), arguments...)
	cmd.Env = append(os.Environ(), "GOVULNDB=file://"+database)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// advisory writes a vulnerability database (https://go.dev/doc/security/vuln/database)
// that says of one symbol of a module's prometheus package that it is faulty
// from the first version on, and returns its folder.
func advisory(t *testing.T, module, symbol, fixed string) string {
	t.Helper()
	const id, when = "GO-2026-0001", "2026-01-01T00:00:00Z"
	events := []map[string]string{{"introduced": "0"}}
	if fixed != "" {
		events = append(events, map[string]string{"fixed": fixed})
	}
	folder := t.TempDir()
	for name, content := range map[string]any{
		"index/db.json": map[string]string{"modified": when},
		"index/modules.json": []map[string]any{{
			"path": module, "vulns": []map[string]string{{"id": id, "modified": when, "fixed": fixed}},
		}},
		"index/vulns.json": []map[string]string{{"id": id, "modified": when}},
		"ID/" + id + ".json": map[string]any{
			"schema_version": "1.3.1", "id": id, "modified": when, "published": when,
			"summary": "made up for a test",
			"affected": []map[string]any{{
				"package": map[string]string{"name": module, "ecosystem": "Go"},
				"ranges":  []map[string]any{{"type": "SEMVER", "events": events}},
				"ecosystem_specific": map[string]any{"imports": []map[string]any{{
					"path": module + "/prometheus", "symbols": []string{symbol},
				}}},
			}},
			"database_specific": map[string]string{"url": "https://pkg.go.dev/vuln/" + id, "review_status": "REVIEWED"},
		},
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		data, err := json.Marshal(content)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	return folder
}
