package livepage

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
)

func TestAddress(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	for _, c := range []struct{ given, listen, want string }{
		{"", "127.0.0.1:9102", "127.0.0.1:9102"},
		{"", "[::]:9102", name + ":9102"},
		{"", "0.0.0.0:80", name + ":80"},
		{"", "10.1.2.3:9102", "10.1.2.3:9102"},
		{"", "[fe80::1]:9102", "[fe80::1]:9102"},
		{"gpu1.lab:19102", "[::]:9102", "gpu1.lab:19102"},
		{"10.1.2.3:9102", "[::]:9102", "10.1.2.3:9102"},
		{"fd00::17:9102", "[::]:9102", "[fd00::17]:9102"}, // $(POD_IP):9102
		{"[fd00::17]:9102", "[::]:9102", "[fd00::17]:9102"},
	} {
		assert.Equal(t, c.want, Address(c.given, c.listen), "%+v", c)
	}
}

// TestUnreadable: that an optional topic isn't there is no fault of the page, also where brokers were away before; that it can't be read is, and so is that
// another one isn't there.
func TestUnreadable(t *testing.T) {
	cfg := Config{Topics: stream.NewTopics("p-")}
	missing, refused := fmt.Errorf("topic x does not exist: %w", kafka.UnknownTopicOrPartition), fmt.Errorf("asking for topic x: %w", kafka.TopicAuthorizationFailed)
	for topic, optional := range map[string]bool{"p-methylation": true, "p-alerts": true, "p-variants": false, "p-status": false} {
		view := monitor.NewView(cfg.Topics, monitor.Limits{})
		shown := func(err error) bool {
			cfg.unreadable(view, topic, err)
			return len(view.Summary(time.Now()).Unreadable) > 0
		}
		assert.Equal(t, !optional, shown(missing), topic)
		assert.True(t, shown(refused), topic)
		assert.Equal(t, !optional, shown(missing), topic)
	}
}

func TestAdvertise(t *testing.T) {
	for given, ok := range map[string]bool{
		"": true, "gpu1.lab:9102": true, "10.1.2.3:9102": true, "fd00::17:9102": true, "[fd00::17]:9102": true,
		"gpu1.lab": false, ":9102": false, "gpu1.lab:": false, "gpu1.lab:http": false, "gpu1.lab:0": false, "gpu1.lab:70000": false, "http://gpu1.lab:9102": false,
	} {
		err := (&Flags{Advertise: given}).Validate()
		assert.Equal(t, ok, err == nil, "%q: %v", given, err)
	}
}

func TestReportFlags(t *testing.T) {
	for d, ok := range map[time.Duration]bool{0: true, time.Second: true, 5 * time.Second: true, time.Millisecond: false, time.Minute: false, -time.Second: false} {
		err := (&ReportFlags{Interval: d}).Validate()
		assert.Equal(t, ok, err == nil, "%v: %v", d, err)
	}
}
