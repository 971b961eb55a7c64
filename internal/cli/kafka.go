package cli

import (
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/stream/kafka"
)

// passwordVariable is the environment variable that may hold the SASL password,
// which has no flag of its own: flags are visible to every user of a machine.
const passwordVariable = "PORESTREAM_SASL_PASSWORD"

// KafkaFlags say how to reach Kafka.
type KafkaFlags struct {
	Brokers      []string
	Prefix       string
	Replication  int
	tls          bool
	tlsConfig    kafka.TLSConfig
	mechanism    string
	user         string
	passwordFile string
}

// Register adds the flags.
func (f *KafkaFlags) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Brokers, "brokers", nil, "Kafka brokers, host:port[,host:port...]")
	flags.StringVar(&f.Prefix, "topic-prefix", "", "prefix of all topic names")
	flags.IntVar(&f.Replication, "replication", 1, "replication factor of topics that are created")
	flags.BoolVar(&f.tls, "tls", false, "encrypt the connections (implied by the other --tls flags)")
	flags.StringVar(&f.tlsConfig.CAFile, "tls-ca", "", "PEM file of the authorities to trust; the system's if not given")
	flags.StringVar(&f.tlsConfig.CertFile, "tls-cert", "", "PEM file of this client's certificate")
	flags.StringVar(&f.tlsConfig.KeyFile, "tls-key", "", "PEM file of this client's key")
	flags.StringVar(&f.tlsConfig.ServerName, "tls-server-name", "", "name expected in the broker's certificate, if not its host name")
	flags.BoolVar(&f.tlsConfig.SkipVerify, "tls-insecure-skip-verify", false, "accept any certificate; for trials only")
	flags.StringVar(&f.mechanism, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	flags.StringVar(&f.user, "sasl-user", "", "user to authenticate as")
	flags.StringVar(&f.passwordFile, "sasl-password-file", "", "file with the password; else the environment variable "+passwordVariable)
}

// longestPrefix and the longest name of a topic are together below the 249 letters that Kafka takes.
const longestPrefix = 200

// notOfTopic reports whether Kafka refuses a letter in the name of a topic. The embedded broker takes any.
func notOfTopic(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// Config is the configuration that the flags describe.
func (f *KafkaFlags) Config(logger *slog.Logger, reg prometheus.Registerer) (kafka.Config, error) {
	cfg := kafka.Config{Brokers: f.Brokers, Logger: logger, Registerer: reg}
	if len(f.Brokers) == 0 {
		return cfg, Usagef("--brokers is required: Kafka brokers, host:port[,host:port...]")
	}
	if at := strings.IndexFunc(f.Prefix, notOfTopic); at >= 0 || len(f.Prefix) > longestPrefix {
		return cfg, Usagef("--topic-prefix %q: want at most %d letters, digits, dots, underscores and hyphens, of which Kafka's topics have their names", f.Prefix, longestPrefix)
	}
	if f.tls || f.tlsConfig != (kafka.TLSConfig{}) {
		tls := f.tlsConfig
		cfg.TLS = &tls
	}
	switch {
	case f.mechanism != "" && f.user == "":
		return cfg, Usagef("--sasl-mechanism needs --sasl-user")
	case f.mechanism == "" && (f.user != "" || f.passwordFile != ""):
		return cfg, Usagef("--sasl-user and --sasl-password-file need --sasl-mechanism")
	case f.mechanism != "":
		cfg.SASL = &kafka.SASLConfig{Mechanism: f.mechanism, User: f.user, PasswordFile: f.passwordFile}
		if f.passwordFile == "" {
			cfg.SASL.Password = os.Getenv(passwordVariable)
		}
		if f.passwordFile == "" && cfg.SASL.Password == "" {
			return cfg, Usagef("--sasl-mechanism needs a password: give --sasl-password-file or set %s", passwordVariable)
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}
