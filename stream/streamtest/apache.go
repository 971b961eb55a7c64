package streamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// LibVariable names the environment variable that holds the folder with the
// jars of Apache Kafka; kafka/fetch.sh fills one.
const LibVariable = "PORESTREAM_KAFKA_LIB"

// clusterID is the one every test broker has; any 16 bytes in base64 would do.
const clusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

// startTimeout is for machines that have other things to do; a start takes 2 to
// 5 s on an idle one.
const startTimeout = 3 * time.Minute

// ApacheConfig describes a real broker.
type ApacheConfig struct {
	// Lib is the folder with the jars and Dir an empty one for its files.
	Lib, Dir string
	// User and Password switch on SASL/SCRAM-SHA-512 and an authorizer that
	// lets this user do everything.
	User, Password string
	// TLS switches on TLS with this identity.
	TLS *Identity
}

// Apache is a running Apache Kafka broker.
type Apache struct {
	// Addr is its host:port.
	Addr string

	cmd  *exec.Cmd
	hold io.Closer // closing it ends the broker
	log  string
	done chan struct{}
}

// StartApache starts a single-node broker and waits until it answers. It ends
// with Stop, or when this process ends, however it does.
func StartApache(ctx context.Context, cfg ApacheConfig) (*Apache, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, fmt.Errorf("starting Apache Kafka: %w", err)
	}
	a := &Apache{Addr: addrs[0], log: filepath.Join(cfg.Dir, "broker.log"), done: make(chan struct{})}
	properties, err := cfg.write(addrs[0], addrs[1])
	if err != nil {
		return nil, fmt.Errorf("configuring Apache Kafka: %w", err)
	}
	class := []string{"-cp", filepath.Join(cfg.Lib, "*")}
	format := append(class, "kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID, "-c", properties)
	if cfg.User != "" {
		format = append(format, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", cfg.User, cfg.Password))
	}
	if out, err := exec.CommandContext(ctx, "java", format...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("formatting Apache Kafka's log: %w: %s", err, out)
	}
	if err := a.start(append([]string{"-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"},
		append(class, "kafka.Kafka", properties)...)); err != nil {
		return nil, fmt.Errorf("starting Apache Kafka: %w", err)
	}
	if err := a.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Apache Kafka: %w", err), a.Stop())
	}
	return a, nil
}

// start runs java below a shell that ends it when its input does: with this
// process, even if that is killed.
func (a *Apache) start(args []string) error {
	const guard = `exec 3<&0; java "$@" 3<&- & pid=$!; (read -r _ <&3; kill $pid) & wait $pid; kill $!`
	a.cmd = exec.Command("sh", append([]string{"-c", guard, "sh"}, args...)...)
	hold, err := a.cmd.StdinPipe()
	if err != nil {
		return err
	}
	log, err := os.Create(a.log)
	if err != nil {
		return err
	}
	defer log.Close()
	a.hold, a.cmd.Stdout, a.cmd.Stderr = hold, log, log
	if err := a.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(a.done)
		// Being ended by a signal is no fault.
		_ = a.cmd.Wait()
	}()
	return nil
}

func (a *Apache) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-a.done:
			log, _ := os.ReadFile(a.log)
			return fmt.Errorf("it has ended: %s", log[max(len(log)-2000, 0):])
		case <-ctx.Done():
			return fmt.Errorf("it does not answer, see %s: %w", a.log, err)
		}
	}
}

// Stop ends the broker in order.
func (a *Apache) Stop() error {
	if err := a.hold.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("stopping Apache Kafka: %w", err)
	}
	<-a.done
	return nil
}

// write makes server.properties and returns its path.
func (c ApacheConfig) write(addr, controller string) (string, error) {
	protocol := map[[2]bool]string{
		{false, false}: "PLAINTEXT", {false, true}: "SSL",
		{true, false}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL",
	}[[2]bool{c.User != "", c.TLS != nil}]
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + controller,
		"controller.listener.names=CONTROLLER",
		"listeners=CLIENT://" + addr + ",CONTROLLER://" + controller,
		"advertised.listeners=CLIENT://" + addr,
		"inter.broker.listener.name=CLIENT",
		"listener.security.protocol.map=CLIENT:" + protocol + ",CONTROLLER:PLAINTEXT",
		"log.dirs=" + filepath.Join(c.Dir, "log"),
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=4",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=100",
		"auto.create.topics.enable=false",
		"broker.heartbeat.interval.ms=500",
		"broker.session.timeout.ms=2000",
		"message.max.bytes=1048588",
	}
	if c.TLS != nil {
		store := filepath.Join(c.Dir, "broker.pem")
		if err := os.WriteFile(store, append(c.TLS.KeyPEM, c.TLS.CertPEM...), 0o600); err != nil {
			return "", err
		}
		trust := filepath.Join(c.Dir, "ca.pem")
		if err := os.WriteFile(trust, c.TLS.CAPEM, 0o600); err != nil {
			return "", err
		}
		lines = append(lines, "ssl.keystore.type=PEM", "ssl.keystore.location="+store, "ssl.truststore.type=PEM", "ssl.truststore.location="+trust)
	}
	if c.User != "" {
		lines = append(lines,
			"sasl.enabled.mechanisms=SCRAM-SHA-512",
			"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
			fmt.Sprintf("listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=%q password=%q;", c.User, c.Password),
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			// The controller's listener is plain and on the loopback.
			"super.users=User:"+c.User+";User:ANONYMOUS",
			"allow.everyone.if.no.acl.found=false",
		)
	}
	path := filepath.Join(c.Dir, "server.properties")
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// freeAddrs finds loopback ports that nobody listens on.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
