package access_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/access"
)

var update = flag.Bool("update", false, "write the table of rights into docs/operate/security.md")

func TestCommands(t *testing.T) {
	d := access.Deployment{Prefix: "lab.", Group: "porestream"}
	rights, err := d.Rights(access.RoleVariant)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Read --operation Write --operation DescribeConfigs --topic lab.reads",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Write --operation DescribeConfigs --topic lab.calls",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Write --operation DescribeConfigs --topic lab.dlq",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Write --operation DescribeConfigs --topic lab.status",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Read --operation Write --operation DescribeConfigs --topic lab.state",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Read --group lab.porestream-variant",
		"kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal User:variant --operation Write --transactional-id lab.porestream-variant/ --resource-pattern-type prefixed",
	}, access.Commands("b:9092", "User:variant", rights, "--command-config", "admin.properties")[:7])
	rights = []access.Right{{Resource: access.Topic, Name: "t", Operation: access.Read}}
	assert.Equal(t, []string{`kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal 'User:CN=a lab'\''s,O=x' --operation Read --topic t`},
		access.Commands("b:9092", "User:CN=a lab's,O=x", rights))
}

func TestRoles(t *testing.T) {
	for _, role := range access.Roles() {
		require.NotEmpty(t, access.About(role))
		for _, d := range []access.Deployment{{Group: "g"}, {Group: "g", Panels: true}, {Group: "g", Adaptive: true}, {Group: "g", Basecalls: true}, {Group: "g", Methylation: true}} {
			rights, err := d.Rights(role)
			require.NoError(t, err)
			seen := make(map[access.Right]bool)
			for _, r := range rights {
				require.NotEmpty(t, r.Name)
				require.NotEmpty(t, r.For)
				r.For = ""
				require.False(t, seen[r], "%s has %v twice", role, r)
				seen[r] = true
			}
		}
	}
	_, err := access.Deployment{}.Rights("root")
	require.ErrorContains(t, err, `unknown role "root", want one of ingest`)
}

// The table in the documentation is what the code says.
func TestRightsAreDocumented(t *testing.T) {
	const begin, end = "<!-- rights: go test ./stream/access -run TestRightsAreDocumented -update -->\n", "<!-- end of rights -->\n"
	path := filepath.Join("..", "..", "docs", "operate", "security.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + table(t) + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page))
}

// table lists what each role needs, without the two rights that checking the
// topics' settings needs on every topic.
func table(t *testing.T) string {
	t.Helper()
	d := access.Deployment{Prefix: "PREFIX", Group: "porestream", Panels: true, Adaptive: true, Basecalls: true, Methylation: true}
	var b strings.Builder
	b.WriteString("| role | who | operation | resource | for |\n|---|---|---|---|---|\n")
	for _, role := range access.Roles() {
		rights, err := d.Rights(role)
		require.NoError(t, err)
		who := access.About(role)
		name := "`" + role + "`"
		for _, r := range rights {
			if r.For == "checking topics" {
				continue
			}
			resource := fmt.Sprintf("%s `%s`", r.Resource, r.Name)
			if r.Prefixed {
				resource = fmt.Sprintf("%s `%s`…", r.Resource, r.Name)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, who, r.Operation, resource, r.For)
			name, who = "", ""
		}
	}
	return b.String()
}
