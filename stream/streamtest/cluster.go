package streamtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// loopback is any free port of this machine.
const loopback = "127.0.0.1:0"

// ClusterConfig describes a cluster of real brokers.
type ClusterConfig struct {
	ApacheConfig
	// Nodes is the number of brokers, each of which is a controller as well;
	// zero means three. With three, everything is kept three times and a write
	// needs two of them.
	Nodes int
	// Proxies puts one in front of every broker's first listener, so that the
	// network between clients and brokers can be made worse; brokers among
	// themselves don't pass them.
	Proxies bool
}

// Cluster is a cluster of Apache Kafka brokers.
type Cluster struct {
	// Nodes are the brokers, by their number less one.
	Nodes []*Apache
}

// StartCluster starts the brokers and waits until all of them answer.
func StartCluster(ctx context.Context, cfg ClusterConfig) (_ *Cluster, err error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 3
	}
	if len(cfg.Listeners) == 0 {
		cfg.Listeners = []Listener{{Name: "CLIENT"}}
	}
	c := new(Cluster)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting Apache Kafka: %w", err), c.Stop())
		}
	}()
	perNode := len(cfg.Listeners) + 2
	addrs, err := freeAddrs(cfg.Nodes * perNode)
	if err != nil {
		return c, err
	}
	voters := make([]string, cfg.Nodes)
	for i := range voters {
		voters[i] = fmt.Sprintf("%d@%s", i+1, addrs[i*perNode])
	}
	for i := range cfg.Nodes {
		n, err := cfg.newNode(ctx, int32(i+1), addrs[i*perNode:(i+1)*perNode], voters)
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	var starting errgroup.Group
	for _, n := range c.Nodes {
		if err := n.start(); err != nil {
			return c, err
		}
		starting.Go(func() error { return n.ready(ctx) })
	}
	return c, starting.Wait()
}

// newNode makes the folder of a broker, whose addresses are those of its
// controller, between brokers and of its listeners, and the proxy before it.
func (c *ClusterConfig) newNode(ctx context.Context, id int32, addrs, voters []string) (*Apache, error) {
	dir := filepath.Join(c.Dir, fmt.Sprintf("node%d", id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	n := &Apache{
		ID: id, Addr: addrs[2], listen: addrs[2], Log: filepath.Join(dir, "broker.log"), dir: dir,
		listeners: make(map[string]string), maxBlocks: c.MaxFileBytes / 512,
	}
	if c.Proxies {
		var err error
		if n.proxy, err = newProxy(n.listen); err != nil {
			return nil, err
		}
		n.Addr = n.proxy.addr()
	}
	properties, err := c.properties()
	if err != nil {
		return n, err
	}
	listen := []string{"CONTROLLER://" + addrs[0], "INTERNAL://" + addrs[1]}
	advertised := []string{"INTERNAL://" + addrs[1]}
	protocols := []string{"CONTROLLER:PLAINTEXT", "INTERNAL:PLAINTEXT"}
	for i, l := range c.Listeners {
		at := addrs[2+i]
		listen = append(listen, l.Name+"://"+at)
		if i == 0 {
			at = n.Addr
		}
		n.listeners[l.Name] = at
		advertised = append(advertised, l.Name+"://"+at)
		protocols = append(protocols, l.Name+":"+l.protocol())
	}
	replicas, needed, session := "3", "2", 3*time.Second
	heap := []string{"-Xms192m", "-Xmx384m"}
	format := []string{}
	if c.Nodes == 1 {
		replicas, needed, session = "1", "1", 2*time.Second
		heap = []string{"-Xms128m", "-Xmx256m"}
		properties["controller.quorum.bootstrap.servers"] = addrs[0]
		format = []string{"--standalone"}
	} else {
		properties["controller.quorum.voters"] = strings.Join(voters, ",")
		properties["default.replication.factor"] = replicas
		properties["min.insync.replicas"] = needed
	}
	maps.Copy(properties, map[string]string{
		"node.id":                                  fmt.Sprint(id),
		"listeners":                                strings.Join(listen, ","),
		"advertised.listeners":                     strings.Join(advertised, ","),
		"listener.security.protocol.map":           strings.Join(protocols, ","),
		"log.dirs":                                 filepath.Join(dir, "log"),
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            needed,
		"broker.session.timeout.ms":                fmt.Sprint(session.Milliseconds()),
	})
	maps.Copy(properties, c.Properties)
	path, err := writeProperties(dir, properties)
	if err != nil {
		return n, err
	}
	n.args = append(heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(c.Lib, "*"), "kafka.Kafka", path)
	return n, c.format(ctx, path, format...)
}

// Addrs are the host:port of every broker's first listener.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr
	}
	return addrs
}

// Stop ends all brokers, without the time that each would take to hand over to
// the others.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.Nodes {
		if len(c.Nodes) == 1 {
			errs = append(errs, n.Stop())
		} else {
			errs = append(errs, n.Kill())
		}
		if n.proxy != nil {
			n.proxy.close()
		}
	}
	return errors.Join(errs...)
}

// Delay makes everything between clients and the broker take d longer, each
// way, from now on.
func (a *Apache) Delay(d time.Duration) { a.proxy.set(func(l *link) { l.delay = d }) }

// Cut keeps everything between clients and the broker back, as a network does
// that loses all packets: connections stay, new ones can be made, and nothing
// comes through.
func (a *Apache) Cut() { a.proxy.set(func(l *link) { l.cut = true }) }

// Heal takes Delay and Cut back. What was kept back comes through.
func (a *Apache) Heal() { a.proxy.set(func(l *link) { *l = link{} }) }
