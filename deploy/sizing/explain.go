package sizing

import (
	"fmt"
	"strings"
)

// Explain is the arithmetic that leads from a site to its plan, a line for each step.
func Explain(s Site, m Measured, p Plan) string {
	var b strings.Builder
	line := func(name, how, what string) { fmt.Fprintf(&b, "%-12s%-66s = %s\n", name, how, what) }
	working := p.Processors - s.Spare
	line("peak", fmt.Sprintf("%d channels × %d/s", p.Channels, SampleRate), Million(p.Peak)+" samples/s")
	line("signal", fmt.Sprintf("%s × %.3g B", Million(p.Peak), m.SignalBytes), Bytes(p.Signal)+"/s")
	line("reads", fmt.Sprintf("%s / %.3g samples per base × %.3g B, before zstd", Million(p.Peak), m.SamplesPerBase, m.ReadBytes), Bytes(p.Reads)+"/s")
	line("brokers", fmt.Sprintf("take in (%s + %s) × %d replicas", Bytes(p.Signal), Bytes(p.Reads), s.Replication), Bytes(p.Write)+"/s, and give out as much")
	line("disk", fmt.Sprintf("%s/s × %.0f %% occupancy × %.0f s", Bytes(p.Write), 100*s.Occupancy, s.Retention.Seconds()), Bytes(p.Disk))
	line("brokers by", fmt.Sprintf("disk: %s / (%s × %.0f %%)", Bytes(p.Disk), Bytes(s.BrokerDisk), 100*diskShare), fmt.Sprint(ceil(p.Disk/(s.BrokerDisk*diskShare))))
	line("", fmt.Sprintf("network: %s / (%s × %.0f %%)", Bytes(p.Write), Bytes(s.BrokerNetwork), 100*networkShare), fmt.Sprint(ceil(p.Write/(s.BrokerNetwork*networkShare))))
	line("", "replication", fmt.Sprintf("%d; the most of the three: %d", s.Replication, p.Brokers))
	line("processors", fmt.Sprintf("%s / (%s × %.0f %%), and %d to spare", Million(p.Peak), Million(s.ProcessorRate), 100*s.Load, s.Spare), fmt.Sprint(p.Processors))
	line("partitions", fmt.Sprintf("4 for each processor, in steps of %d", leastPartitions), fmt.Sprint(p.Partitions))
	line("state", fmt.Sprintf("%d samples × %s positions × %.3g B", p.FlowCells, Million(s.Genome), m.StateBytes), Bytes(p.State))
	line("memory", fmt.Sprintf("%s + %s / %d, of each processor", Bytes(m.ProcessorMemory), Bytes(p.State), working), Bytes(p.ProcessorMemory))
	line("ingest", fmt.Sprintf("%s × %.2f cores per 15 M, %d × %s", Million(p.Peak), m.IngestCores*15e6, p.FlowCells, Bytes(m.IngestMemory)), fmt.Sprintf("%.1f cores, %s", p.IngestCores, Bytes(p.IngestMemory)))
	line("spool", fmt.Sprintf("%s/s × %.0f s without Kafka", Bytes(p.Signal), s.Outage.Seconds()), Bytes(p.Spool))
	return b.String()
}

// Million is a number in millions, to four places.
func Million(x float64) string { return fmt.Sprintf("%.4g M", x/1e6) }

// Bytes is a number of bytes in powers of 1,000, to three places.
func Bytes(n float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}} {
		if n >= u.size {
			return fmt.Sprintf("%.3g %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", n)
}
