package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// refuse makes Kafka answer all requests of a kind with an error.
func (f *fault) refuse(key kmsg.Key, err *kerr.Error) {
	streamtest.Refuse(f.kafka(), key, err, 1_000_000)
}

// interrupted has an ingest begin to play the recording, and kills it when more of it is in
// Kafka than that it has begun. What it prints is of no interest.
func (f *fault) interrupted(args ...string) {
	f.Helper()
	cmd := f.command(append(args, "--pace", "20", lambda("reads.pod5")))
	require.NoError(f, cmd.Start())
	f.signalComesOf(50)
	require.NoError(f, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

var kafkaFaults = map[string]func(*fault){
	"Kafka can't be reached at the start": func(f *fault) {
		f.addr = "127.0.0.1:1"
		f.fails(lambda("reads.pod5"))
	},
	"Kafka goes away while signal flows": func(f *fault) {
		broker := f.kafka()
		f.runs("--pace", "5", lambda("reads.pod5"))
		f.signalComes()
		broker.Close()
	},
	"this machine's clock is more than an hour ahead of Kafka's": func(f *fault) {
		broker := f.kafka()
		f.runs("--pace", "5", lambda("reads.pod5"))
		f.signalComes()
		streamtest.Refuse(broker, kmsg.Produce, kerr.InvalidTimestamp, 1_000_000)
	},
	"Kafka's password is wrong": func(f *fault) {
		f.kafka(kfake.EnableSASL(), kfake.Superuser(kafka.MechanismScramSHA256, "lab", markedPassword))
		f.fails("--sasl-mechanism", kafka.MechanismScramSHA256, "--sasl-user", "lab", "--sasl-password-file", f.write("password", []byte(wrongPassword)), lambda("reads.pod5"))
	},
	"Kafka asks for a password": func(f *fault) {
		f.kafka(kfake.EnableSASL(), kfake.Superuser(kafka.MechanismScramSHA256, "lab", markedPassword))
		f.fails(lambda("reads.pod5"))
	},
	"Kafka's certificate is of another authority": func(f *fault) {
		f.secureKafka(time.Hour, true)
	},
	"Kafka's certificate has expired": func(f *fault) {
		f.secureKafka(-time.Hour, false)
	},
	"the user may not write a topic": func(f *fault) { f.refuse(kmsg.Produce, kerr.TopicAuthorizationFailed); f.fails(lambda("reads.pod5")) },
	"the user may not use transactions": func(f *fault) {
		f.refuse(kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed)
		f.fails(lambda("reads.pod5"))
	},
	"a record is too large": func(f *fault) { f.refuse(kmsg.Produce, kerr.MessageTooLarge); f.fails(lambda("reads.pod5")) },
	"the transaction timeout is refused": func(f *fault) {
		f.refuse(kmsg.InitProducerID, kerr.InvalidTransactionTimeout)
		f.fails(lambda("reads.pod5"))
	},
	"Kafka is too old": func(f *fault) { f.refuse(kmsg.InitProducerID, kerr.UnsupportedVersion); f.fails(lambda("reads.pod5")) },
	"a topic takes small records only": func(f *fault) {
		f.kafka()
		settings := stream.NewTopics("").Settings(3)
		for i := range settings {
			if settings[i].Name == stream.NewTopics("").Signal {
				settings[i].Config["max.message.bytes"] = "1000"
			}
		}
		require.NoError(f, f.client().EnsureTopics(f.ctx, settings, 1))
		f.fails(lambda("reads.pod5"))
	},
	"a topic has another number of partitions": func(f *fault) {
		f.kafka()
		require.NoError(f, f.client().EnsureTopics(f.ctx, stream.NewTopics("").Settings(3), 1))
		f.fails("--partitions", "5", lambda("reads.pod5"))
	},
	"another ingest takes over the run": func(f *fault) {
		f.kafka()
		older := f.command([]string{"--pace", "5", lambda("reads.pod5")})
		ended := make(chan struct{})
		go func() { defer close(ended); f.await(older) }()
		f.signalComes()
		younger := f.command([]string{"--pace", "5", lambda("reads.pod5")})
		require.NoError(f, younger.Start())
		defer func() { younger.Process.Kill(); younger.Wait() }()
		<-ended
	},
	"the run was begun with another --chunk": func(f *fault) {
		f.interrupted()
		f.fails("--chunk", "2s", lambda("reads.pod5"))
	},
	"the run was begun as another sample": func(f *fault) {
		f.interrupted()
		f.fails("--sample", "other", lambda("reads.pod5"))
	},
	"the run was begun with other reads": func(f *fault) {
		f.interrupted()
		f.fails("--channels", "1-100", lambda("reads.pod5"))
	},
	"--listen is taken": func(f *fault) {
		taken := f.taken()
		f.fails("--listen", taken, lambda("reads.pod5"))
	},
	"Kafka's address is none": func(f *fault) { f.fails("--brokers", "nowhere", lambda("reads.pod5")) },
}

// secureKafka has ingest connect to a broker whose certificate holds for a time,
// and may be of another authority than ingest trusts.
func (f *fault) secureKafka(valid time.Duration, other bool) {
	f.Helper()
	authority, err := streamtest.NewAuthority()
	require.NoError(f, err)
	id, err := authority.Issue("broker", valid)
	require.NoError(f, err)
	conf, err := id.ServerConfig()
	require.NoError(f, err)
	f.kafka(kfake.TLS(conf))
	trusted := id.CAPEM
	if other {
		stranger, err := streamtest.NewIdentity()
		require.NoError(f, err)
		trusted = stranger.CAPEM
	}
	f.fails("--tls-ca", f.write("ca.pem", trusted), lambda("reads.pod5"))
}

// spooling runs an ingest with a spool and takes Kafka away from it.
func (f *fault) spooling(spool string, args ...string) {
	f.Helper()
	broker := f.kafka()
	f.runs(append(args, "--pace", "50", "--spool", spool, "--max-buffered", "4MiB", lambda("reads.pod5"))...)
	f.signalComes()
	broker.Close()
}

var spoolFaults = map[string]func(*fault){
	"the spool is full": func(f *fault) {
		f.spooling(filepath.Join(f.TempDir(), "spool"), "--spool-max", "1MiB")
	},
	"the spool's disk is full": func(f *fault) {
		f.spooling(filepath.Join(f.smallDisk(), "spool"))
	},
	"the spool is in use": func(f *fault) {
		spool := filepath.Join(f.TempDir(), "spool")
		f.kafka()
		other := f.command([]string{"--topic-prefix", "other-", "--pace", "1", "--spool", spool, lambda("reads.pod5")})
		require.NoError(f, other.Start())
		defer func() { other.Process.Kill(); other.Wait() }()
		f.eventually("the spool", func() bool { files, err := os.ReadDir(spool); return err == nil && len(files) > 0 })
		f.fails("--spool", spool, lambda("reads.pod5"))
	},
	"the spool is damaged": func(f *fault) {
		spool := filepath.Join(f.TempDir(), "spool")
		segment := f.filled(spool)
		content := readFile(f, segment)
		content[3] ^= 0xff // the signature
		require.NoError(f, os.WriteFile(segment, content, 0o600))
		f.kafka()
		f.fails("--spool", spool, lambda("reads.pod5"))
	},
	"the spool is of another cluster": func(f *fault) {
		spool := filepath.Join(f.TempDir(), "spool")
		f.filled(spool)
		f.kafka()
		f.fails("--spool", spool, lambda("reads.pod5"))
	},
	"the spool may not be written": func(f *fault) {
		spool := filepath.Join(f.TempDir(), "spool")
		require.NoError(f, os.Mkdir(spool, 0o500))
		f.withoutRights("--spool", spool, lambda("reads.pod5"))
	},
}

// filled has an ingest that is killed leave signal in a spool, and returns the file
// with it.
func (f *fault) filled(spool string) (segment string) {
	f.Helper()
	broker := f.kafka()
	filling := f.command([]string{"--pace", "50", "--spool", spool, "--max-buffered", "4MiB", lambda("reads.pod5")})
	require.NoError(f, filling.Start())
	f.signalComes()
	broker.Close()
	f.eventually("signal in the spool", func() bool {
		files, err := filepath.Glob(filepath.Join(spool, "*", "*.spool"))
		require.NoError(f, err)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Size() > 300_000 {
				segment = file
			}
		}
		return segment != ""
	})
	require.NoError(f, filling.Process.Kill())
	_ = filling.Wait() // it was killed
	return segment
}

// smallDisk is a file system that soon is full. It takes the right to mount.
func (f *fault) smallDisk() string {
	f.Helper()
	dir := f.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		if !errors.Is(err, syscall.EPERM) {
			f.Fatalf("mounting a small disk: %v", err)
		}
		f.Skipf("needs the right to mount a small disk: %v", err)
	}
	f.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
