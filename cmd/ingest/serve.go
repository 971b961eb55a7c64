package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/porestream/porestream/ingest/push"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream"
)

// serving holds the settings of `ingest serve` besides those of all sources.
type serving struct {
	address   string
	cert, key string
	clientCA  string
	clientCRL string
	devices   string
	insecure  bool
	runs      int
	idle      time.Duration
	defaults  push.Limits
}

const serveName = "serve"

func serveKind() kind {
	return kind{
		name: serveName, use: "--brokers HOST:PORT --devices FILE --push-cert FILE --push-key FILE",
		example: "serve --brokers kafka:9092 --devices devices.yaml --push-listen :9102 --push-cert server.pem --push-key server.key",
		short:   "Take signal from devices that push it over gRPC",
		long: "Serves the push API: devices register runs, send chunks and learn what is durable. " +
			"Killed and started again, it goes on where it stopped, and asks for nothing that it has acknowledged.",
		endless: true, waiting: "connecting to Kafka",
		make: func() source { return new(serving) },
	}
}

func (o *serving) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "push-listen", "127.0.0.1:9102", "address of the push API")
	flags.StringVar(&o.cert, "push-cert", "", "certificate of the push API, PEM")
	flags.StringVar(&o.key, "push-key", "", "its private key, PEM")
	flags.StringVar(&o.clientCA, "push-client-ca", "", "certificates that sign those of devices, PEM; devices must have one then")
	flags.StringVar(&o.clientCRL, "push-client-crl", "", "revocation lists of --push-client-ca, one in DER or several in a file in PEM; read again when it changes")
	flags.StringVar(&o.devices, "devices", "", "YAML file of devices, their tokens and limits; read again when it changes")
	flags.BoolVar(&o.insecure, "push-insecure", false, "allow the push API without TLS, or without tokens and certificates, on an address that others can reach")
	flags.IntVar(&o.runs, "max-runs", 16, "runs under way at the same time; they share --max-buffered, with at least 4 MiB each")
	flags.DurationVar(&o.idle, "idle", 10*time.Minute, "for how long a run is kept whose device has gone; it is not ended, and can be gone on with")
	flags.Uint64Var(&o.defaults.ChunkSamples, "max-chunk-samples", stream.MaxChunkSamples, "samples that a chunk may have")
	flags.Int64Var(&o.defaults.BytesPerSecond, "max-bytes-per-second", 0, "of a device, if the file of devices says nothing else; 0 for no limit")
	flags.Int64Var(&o.defaults.Channels, "max-channels", 4096, "of a run, likewise")
	flags.Int64Var(&o.defaults.OpenReads, "max-open-reads", 4096, "of a run, likewise")
	flags.Int64Var(&o.defaults.Runs, "max-device-runs", 4, "of a device, likewise")
	fileFlag(flags, "push-cert", "push-key", "push-client-ca", "push-client-crl", "devices")
}

func (o *serving) claims() ([]sources.Claim, error) {
	return []sources.Claim{{What: sources.Address, Value: o.address}}, nil
}

func (o *serving) complete(*given) error {
	switch {
	case (o.cert == "") != (o.key == ""):
		return cli.Usagef("--push-cert and --push-key go together")
	case o.clientCA != "" && o.cert == "":
		return cli.Usagef("--push-client-ca needs --push-cert and --push-key")
	case o.clientCRL != "" && o.clientCA == "":
		return cli.Usagef("--push-client-crl needs --push-client-ca")
	case o.defaults.ChunkSamples < 1 || o.defaults.ChunkSamples > stream.MaxChunkSamples:
		return cli.Usagef("--max-chunk-samples is %d, and goes from 1 to %d", o.defaults.ChunkSamples, stream.MaxChunkSamples)
	case o.defaults.BytesPerSecond < 0 || o.defaults.Channels < 0 || o.defaults.OpenReads < 0 || o.defaults.Runs < 0:
		return cli.Usagef("--max-bytes-per-second, --max-channels, --max-open-reads and --max-device-runs can't be negative")
	case o.runs < 1 || o.idle <= 0:
		return cli.Usagef("--max-runs and --idle must be positive")
	}
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return cli.Usagef("--push-listen: %w", err)
	}
	ip := net.ParseIP(host)
	if o.insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	if o.cert == "" {
		return cli.Usagef("others can reach %s: give --push-cert and --push-key, or --push-insecure", o.address)
	}
	if o.devices == "" && o.clientCA == "" {
		return cli.Usagef("others can reach %s: give --devices or --push-client-ca, or --push-insecure", o.address)
	}
	return nil
}

func (o *serving) run(ctx context.Context, to *destination) error {
	metrics := to.meter.push
	authority, options, err := o.security(metrics, to)
	if err != nil {
		return misconfigured{err}
	}
	server, err := push.NewServer(push.Config{
		Ingest: to.service, Catalogue: to.cluster, Authority: authority, Runs: o.runs, Idle: o.idle, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening for devices: %w", err)
	}
	to.logger.Info("taking signal from devices", "address", listener.Addr().String(), "tls", o.cert != "", "devices", o.devices)
	to.ready()
	return server.Run(ctx, listener, options...)
}

// security is who may push, and how connections are protected.
func (o *serving) security(metrics *push.Metrics, to *destination) (*push.Authority, []grpc.ServerOption, error) {
	cfg := push.AuthorityConfig{DevicesPath: o.devices, Defaults: o.defaults, Metrics: metrics, Logger: to.logger}
	var options []grpc.ServerOption
	if o.cert != "" {
		protection := &tls.Config{MinVersion: tls.VersionTLS12}
		keys, err := push.NewKeyPair(o.cert, o.key)
		if err != nil {
			return nil, nil, err
		}
		protection.GetCertificate = keys.Certificate
		if o.clientCA != "" {
			if cfg.ClientCAs, err = push.LoadCAs(o.clientCA); err != nil {
				return nil, nil, err
			}
			if o.clientCRL != "" {
				if cfg.Revocations, err = push.LoadRevocations(o.clientCRL, o.clientCA); err != nil {
					return nil, nil, err
				}
			}
			// The authority decides whether it may be trusted; it can report the
			// fault to the device.
			protection.ClientAuth = tls.RequireAnyClientCert
		}
		options = append(options, grpc.Creds(credentials.NewTLS(protection)))
	}
	authority, err := push.NewAuthority(cfg)
	return authority, options, err
}

// tokenCommand makes tokens.
func tokenCommand() *cobra.Command {
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "token DEVICE",
		Short: "Make a token with which a device may push signal",
		Long: "Draws a token. The first line of the output is the token, which is shown once and goes to the device; " +
			"the others belong into the file that `ingest serve --devices` reads, which knows the token by its SHA-256 only.",
		Example: `  ingest token bench-device`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if valid <= 0 {
				return cli.Usagef("--valid must be positive")
			}
			token, hash := push.NewToken()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n\ndevices:\n- name: %q\n  tokens:\n  - sha256: %s\n    expires: %s\n",
				token, args[0], hash, time.Now().Add(valid).UTC().Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().DurationVar(&valid, "valid", 90*24*time.Hour, "for how long")
	return cmd
}
