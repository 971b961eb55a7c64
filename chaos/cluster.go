package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/chaos/observe"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/streamtest"
)

// observerListener is the way to the brokers that no fault of the network is on.
const observerListener = "OBSERVER"

// cluster is the brokers under test.
type cluster struct {
	apache *streamtest.Cluster // nil: the embedded broker
	broker *exec.Cmd
	addr   string
}

// startCluster starts brokers with their files in dir.
func startCluster(ctx context.Context, cfg *config, dir string) (*cluster, error) {
	if cfg.brokers == 0 {
		return startEmbedded(ctx, dir)
	}
	c, err := streamtest.StartCluster(ctx, streamtest.ClusterConfig{
		ApacheConfig: streamtest.ApacheConfig{
			Lib: cfg.lib, Dir: dir,
			Listeners: []streamtest.Listener{{Name: "CLIENT"}, {Name: observerListener}},
			Properties: map[string]string{
				// A transaction whose producer is gone for good is over soon.
				"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
			},
		},
		Nodes: cfg.brokers, Proxies: true,
	})
	if err != nil {
		return nil, err
	}
	return &cluster{apache: c}, nil
}

// services are the addresses that the services connect to, observers those that the harness does.
func (c *cluster) services() []string {
	if c.apache == nil {
		return []string{c.addr}
	}
	return c.apache.Addrs()
}

func (c *cluster) observers() observe.Cluster {
	if c.apache == nil {
		return observe.Cluster{Addrs: []string{c.addr}}
	}
	var o observe.Cluster
	for _, n := range c.apache.Nodes {
		o.Addrs = append(o.Addrs, n.Listener(observerListener))
	}
	return o
}

// node is a broker by the number of a fault's target.
func (c *cluster) node(target int) *streamtest.Apache {
	return c.apache.Nodes[target%len(c.apache.Nodes)]
}

func (c *cluster) stop() error {
	if c.apache != nil {
		return c.apache.Stop()
	}
	if err := c.broker.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the embedded broker: %w", err)
	}
	return c.broker.Wait()
}

// kill ends the embedded broker, of which nothing more is needed.
func (c *cluster) kill() {
	_ = c.broker.Process.Kill()
	_ = c.broker.Wait()
}

// startEmbedded starts this program as an embedded broker.
func startEmbedded(ctx context.Context, dir string) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker: %w", err)
	}
	cmd := exec.Command(self, "broker", filepath.Join(dir, "broker"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded broker: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the embedded broker: it says nothing: %w", err), cmd.Process.Kill(), ctx.Err())
	}
	return &cluster{broker: cmd, addr: strings.TrimSpace(line)}, nil
}

// brokerCommand is the embedded broker in a process of its own, which can be killed without its clients.
func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker DIR", Short: "Run an embedded broker until SIGTERM; its address is the line it prints", Args: cli.Args(cobra.ExactArgs(1)), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			broker, err := embedded.Start(embedded.Config{DataDir: args[0]})
			if err != nil {
				return err
			}
			fmt.Println(broker.Addr())
			// One that has failed answers nobody any more: who waits for an answer would wait for ever.
			return errors.Join(broker.Wait(ctx), broker.Close())
		},
	}
}

// restartTimeout bounds the restart of a broker on a busy machine.
const restartTimeout = 3 * time.Minute
