package streamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// LibVariable names the environment variable that holds the folder with the
// jars of Apache Kafka; kafka/fetch.sh fills one.
const LibVariable = "PORESTREAM_KAFKA_LIB"

// clusterID is the one every test broker has; any 16 bytes in base64 would do.
const clusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

const (
	// startTimeout is for machines that have other things to do; a start takes
	// 2 to 6 s on an idle one.
	startTimeout = 3 * time.Minute
	// stopTimeout is how long a broker may take to stop: one that can't reach
	// its controllers would try for minutes.
	stopTimeout = 15 * time.Second
)

// ApacheConfig describes a real broker, or what the brokers of a cluster share.
type ApacheConfig struct {
	// Lib is the folder with the jars and Dir one for the brokers' files, logs
	// included.
	Lib, Dir string
	// Listeners are where clients connect. None means one in plain text.
	Listeners []Listener
	// Identity is the brokers' certificate for listeners with TLS; clients are
	// trusted by its authority.
	Identity *Identity
	// Users are the names and passwords that listeners with SASL let in, by
	// PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
	Users map[string]string
	// Admin names the user that may do everything, while others may do what an
	// ACL allows them. Empty means that everybody may do everything.
	Admin string
	// Properties are settings of a broker that differ from those that tests need.
	Properties map[string]string
	// MaxFileBytes is what a file may grow to before the broker's disk is full,
	// as it sees it; 0 means no limit.
	MaxFileBytes int64
}

// Listener is one of a broker's ports.
type Listener struct {
	// Name is in capitals, as in the broker's settings.
	Name string
	// TLS encrypts and SASL asks for a user and a password.
	TLS, SASL bool
	// ClientCertificate demands a certificate of the client, whose common name
	// is then its user.
	ClientCertificate bool
}

func (l Listener) protocol() string {
	return map[[2]bool]string{
		{false, false}: "PLAINTEXT", {false, true}: "SSL",
		{true, false}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL",
	}[[2]bool{l.SASL, l.TLS}]
}

// Apache is an Apache Kafka broker in a process of its own. It ends with Stop,
// or when this process ends, however it does.
type Apache struct {
	// ID is its number, from 1.
	ID int32
	// Addr is the host:port of its first listener: that of the proxy in front
	// of it, if there is one.
	Addr string
	// Log is the file with what it prints.
	Log string

	dir       string
	listeners map[string]string // address by name
	listen    string            // where its first listener really is
	proxy     *proxy            // nil: clients connect to the broker itself
	maxBlocks int64             // of 512 bytes
	args      []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// StartApache starts a single broker and waits until it answers.
func StartApache(ctx context.Context, cfg ApacheConfig) (*Apache, error) {
	c, err := StartCluster(ctx, ClusterConfig{ApacheConfig: cfg, Nodes: 1})
	if err != nil {
		return nil, err
	}
	return c.Nodes[0], nil
}

// Listener returns the host:port of a listener by its name.
func (a *Apache) Listener(name string) string { return a.listeners[name] }

// start runs java in the place of a shell that leaves a guard behind, which
// ends java when this process ends, even if that is killed or java stopped.
func (a *Apache) start() error {
	const guard = `exec 3<&0; (read -r _ <&3 || kill -9 $$) & exec 3<&- </dev/null
test "$0" = 0 || ulimit -f "$0"
exec java "$@"`
	a.mu.Lock()
	defer a.mu.Unlock()
	log, err := os.OpenFile(a.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	alive, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	cmd := exec.Command("sh", append([]string{"-c", guard, fmt.Sprint(a.maxBlocks)}, a.args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = alive, log, log
	if err := cmd.Start(); err != nil {
		return errors.Join(err, hold.Close())
	}
	done := make(chan struct{})
	a.cmd, a.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // being ended by a signal is no fault
		// The guard must not kill the process that gets the number next.
		_, _ = io.WriteString(hold, "\n")
		hold.Close()
	}()
	return nil
}

func (a *Apache) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.listen)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-a.ended():
			log, _ := os.ReadFile(a.Log)
			return fmt.Errorf("broker %d has ended: %s", a.ID, log[max(len(log)-2000, 0):])
		case <-ctx.Done():
			return fmt.Errorf("broker %d does not answer, see %s: %w", a.ID, a.Log, err)
		}
	}
}

func (a *Apache) ended() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// signal sends a signal to the broker; one that has ended does not mind.
func (a *Apache) signal(s syscall.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd == nil {
		return nil
	}
	if err := a.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to broker %d: %w", s, a.ID, err)
	}
	return nil
}

// Kill ends the broker at once, as a power cut would, and waits until it has
// ended.
func (a *Apache) Kill() error {
	if err := a.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if ended := a.ended(); ended != nil {
		<-ended
	}
	return nil
}

// Pause stops the broker's process where it is, until Resume. Its connections
// stay open.
func (a *Apache) Pause() error { return a.signal(syscall.SIGSTOP) }

// Resume lets the broker go on after Pause.
func (a *Apache) Resume() error { return a.signal(syscall.SIGCONT) }

// Stop ends the broker in order, or kills it if that takes long.
func (a *Apache) Stop() error {
	ended := a.ended()
	if ended == nil {
		return nil
	}
	if err := errors.Join(a.signal(syscall.SIGTERM), a.Resume()); err != nil {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return a.Kill()
	}
}

// Restart starts a broker that has ended, with the log it had, and waits until
// it answers.
func (a *Apache) Restart(ctx context.Context) error {
	if a.Running() {
		return fmt.Errorf("restarting broker %d: it runs", a.ID)
	}
	if err := a.start(); err != nil {
		return fmt.Errorf("restarting broker %d: %w", a.ID, err)
	}
	if err := a.ready(ctx); err != nil {
		return fmt.Errorf("restarting broker %d: %w", a.ID, err)
	}
	return nil
}

// Running reports whether the broker's process lives, paused or not.
func (a *Apache) Running() bool {
	ended := a.ended()
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// properties are the lines of server.properties that all kinds of brokers have.
func (c *ApacheConfig) properties() (map[string]string, error) {
	p := map[string]string{
		"process.roles":                        "broker,controller",
		"controller.listener.names":            "CONTROLLER",
		"inter.broker.listener.name":           "INTERNAL",
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",
		"group.initial.rebalance.delay.ms":     "0",
		"group.min.session.timeout.ms":         "100",
		"auto.create.topics.enable":            "false",
		"broker.heartbeat.interval.ms":         "500",
		"message.max.bytes":                    "1048588",
	}
	if c.Identity != nil {
		store, trust := filepath.Join(c.Dir, "broker.pem"), filepath.Join(c.Dir, "ca.pem")
		if err := os.WriteFile(store, slices.Concat(c.Identity.KeyPEM, c.Identity.CertPEM), 0o600); err != nil {
			return nil, err
		}
		if err := os.WriteFile(trust, c.Identity.CAPEM, 0o600); err != nil {
			return nil, err
		}
		p["ssl.keystore.type"], p["ssl.keystore.location"] = "PEM", store
		p["ssl.truststore.type"], p["ssl.truststore.location"] = "PEM", trust
		p["ssl.principal.mapping.rules"] = `RULE:^.*CN=([^,]+).*$/$1/,DEFAULT`
	}
	if c.Admin != "" {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		// The listeners between brokers are plain and on the loopback.
		p["super.users"] = "User:" + c.Admin + ";User:ANONYMOUS"
		p["allow.everyone.if.no.acl.found"] = "false"
	}
	for _, l := range c.Listeners {
		prefix := "listener.name." + strings.ToLower(l.Name) + "."
		if l.ClientCertificate {
			p[prefix+"ssl.client.auth"] = "required"
		}
		if !l.SASL {
			continue
		}
		p[prefix+"sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
		const module = "org.apache.kafka.common.security."
		p[prefix+"scram-sha-256.sasl.jaas.config"] = module + "scram.ScramLoginModule required;"
		p[prefix+"scram-sha-512.sasl.jaas.config"] = module + "scram.ScramLoginModule required;"
		plain := module + "plain.PlainLoginModule required"
		for _, user := range slices.Sorted(maps.Keys(c.Users)) {
			plain += fmt.Sprintf(" user_%s=%q", user, c.Users[user])
		}
		p[prefix+"plain.sasl.jaas.config"] = plain + ";"
	}
	return p, nil
}

// format prepares a broker's folder for its first start.
func (c *ApacheConfig) format(ctx context.Context, properties string, args ...string) error {
	format := append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(c.Lib, "*"),
		"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", properties}, args...)
	for _, user := range slices.Sorted(maps.Keys(c.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			format = append(format, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, c.Users[user]))
		}
	}
	if out, err := exec.CommandContext(ctx, "java", format...).CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Apache Kafka's log: %w: %s", err, out)
	}
	return nil
}

// writeProperties writes server.properties into a folder and returns its path.
func writeProperties(dir string, properties map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		// A backslash begins an escape in this format.
		fmt.Fprintf(&b, "%s=%s\n", name, strings.ReplaceAll(properties[name], `\`, `\\`))
	}
	path := filepath.Join(dir, "server.properties")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// freeAddrs finds loopback ports that nobody listens on.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		ln, err := net.Listen("tcp", loopback)
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
