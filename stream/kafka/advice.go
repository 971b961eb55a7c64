package kafka

import (
	"errors"

	"github.com/segmentio/kafka-go"
)

// Advice says what an operator can do about an error of this package, in one
// sentence without a full stop; empty if the error says it itself or nothing is
// known. docs/operate/operations.md lists all of it.
func Advice(err error) string {
	var tooLarge *RecordTooLargeError
	if errors.As(err, &tooLarge) {
		return "raise max.message.bytes of the topic to 1048588 (pore topics check)"
	}
	var gone *OffsetError
	if errors.As(err, &gone) {
		return "what is asked for has expired or the topic was made anew; raise retention.ms, or begin elsewhere"
	}
	if errors.Is(err, ErrFenced) {
		return "another process works under the same transactional id, or the group has given the partition away: a processor begins again by itself"
	}
	var classic *classicRefusedError
	if errors.As(err, &classic) {
		return "enable them (classic in group.coordinator.rebalance.protocols), or use brokers that have them, as Apache Kafka has up to 4.4: the newer protocol is not spoken here"
	}
	var code kafka.Error
	if errors.As(err, &code) {
		return codeAdvice[code]
	}
	return ""
}

const grant = "give the user the rights that pore acls --role ROLE lists"

// codeAdvice is ordered by code.
var codeAdvice = map[kafka.Error]string{
	kafka.UnknownTopicOrPartition:            "make the topic with pore topics create, or mind --topic-prefix; without the right to see it a topic seems missing, too",
	kafka.LeaderNotAvailable:                 "the partition has no leader: start the brokers that hold it, and see whether a disk of theirs is full",
	kafka.RequestTimedOut:                    "the brokers are too slow or don't reach each other: check their logs and load",
	kafka.MessageSizeTooLarge:                "raise max.message.bytes of the topic to 1048588 (pore topics check)",
	kafka.GroupCoordinatorNotAvailable:       "the cluster can't keep offsets or transactions: start the brokers that hold __consumer_offsets and __transaction_state, or set their replication factors to the number of brokers",
	kafka.InvalidTopic:                       "a topic's name has letters, digits, '.', '_' and '-' only; mind --topic-prefix",
	kafka.NotEnoughReplicas:                  "fewer brokers than min.insync.replicas hold the partition: start the others",
	kafka.NotEnoughReplicasAfterAppend:       "fewer brokers than min.insync.replicas hold the partition: start the others",
	kafka.InconsistentGroupProtocol:          "the group's members are of another kind, such as consumers of the newer protocol: stop them, or name another group (--group)",
	kafka.UnknownMemberId:                    "the group has members: stop the programs that are in it",
	kafka.TopicAuthorizationFailed:           grant,
	kafka.GroupAuthorizationFailed:           grant,
	kafka.ClusterAuthorizationFailed:         grant,
	kafka.TransactionalIDAuthorizationFailed: grant,
	kafka.UnsupportedVersion:                 "transactions need Kafka 2.5 or later: update the brokers, or use --delivery at-least-once",
	kafka.InvalidReplicationFactor:           "--replication asks for more brokers than there are",
	kafka.InvalidConfiguration:               "the brokers don't take a setting of the topic: see their version and logs",
	kafka.InvalidTimestamp:                   "records' times are too far from the brokers' clock (message.timestamp.after.max.ms, an hour by default): check this machine's clock",
	kafka.PolicyViolation:                    "the brokers' policy (create.topic.policy.class.name) forbids the topic's settings: have it made by their administrator",
	kafka.InvalidTransactionTimeout:          "raise the brokers' transaction.max.timeout.ms to a minute at least",
	kafka.KafkaStorageError:                  "a broker can't write its log: free space on its disk, or replace it, and start it again",
	kafka.SASLAuthenticationFailed:           "mind --sasl-user, the password and --sasl-mechanism",
	kafka.ThrottlingQuotaExceeded:            "the user's quota is used up: raise it with kafka-configs.sh --entity-type users",
}
