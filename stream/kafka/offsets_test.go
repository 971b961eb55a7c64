package kafka

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var placeOfTests = topicPartition{"signal", 3}

// The bytes are worked out by hand from the protocol guide.
func TestOffsetFetchGolden(t *testing.T) {
	assert.Equal(t, "00000025"+"0009"+"0002"+"00000001"+"0004"+"706f7265"+ // size, key, version, correlation, client
		"0001"+"67"+"00000001"+"0006"+"7369676e616c"+"00000001"+"00000003", // group, topic, partition
		hex.EncodeToString(encodeOffsetFetch(2, "pore", "g", placeOfTests)))
	assert.Equal(t, "00000021"+"0009"+"0007"+"00000001"+"0004"+"706f7265"+"00"+ // the header's tags
		"02"+"67"+"02"+"07"+"7369676e616c"+"02"+"00000003"+"00"+ // compact strings and arrays
		"01"+"00", // require stable
		hex.EncodeToString(encodeOffsetFetch(7, "pore", "g", placeOfTests)))
}

func TestOffsetFetchAgreesWithFranz(t *testing.T) {
	for _, version := range []int16{oldOffsetFetch, stableOffsetFetch} {
		raw := encodeOffsetFetch(version, "pore", "variants", placeOfTests)
		header := 4 + 2 + 2 + 4 + 2 + len("pore")
		if version == stableOffsetFetch {
			header++
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version = version
		require.NoError(t, req.ReadFrom(raw[header:]))
		assert.Equal(t, "variants", req.Group)
		require.Len(t, req.Topics, 1)
		assert.Equal(t, "signal", req.Topics[0].Topic)
		assert.Equal(t, []int32{3}, req.Topics[0].Partitions)
		assert.Equal(t, version == stableOffsetFetch, req.RequireStable)

		for _, want := range []committedOffset{{offset: 77, metadata: "where we are"}, {offset: 0}, {offset: -1}} {
			got, err := decodeOffsetFetch(version, offsetFetchResponse(version, want, 0, 0), placeOfTests)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		_, err := decodeOffsetFetch(version, offsetFetchResponse(version, committedOffset{}, 88, 0), placeOfTests)
		require.ErrorIs(t, err, kafka.UnstableOffsetCommit)
		_, err = decodeOffsetFetch(version, offsetFetchResponse(version, committedOffset{}, 0, 16), placeOfTests)
		require.ErrorIs(t, err, kafka.NotCoordinatorForGroup)
		_, err = decodeOffsetFetch(version, offsetFetchResponse(version, committedOffset{}, 0, 0), topicPartition{"signal", 4})
		require.ErrorContains(t, err, "it is not about topic signal partition 4")
		whole := offsetFetchResponse(version, committedOffset{offset: 5, metadata: "m"}, 0, 0)
		for n := range whole {
			_, err := decodeOffsetFetch(version, whole[:n], placeOfTests)
			require.Error(t, err, "the first %d bytes", n)
		}
	}
}

// offsetFetchResponse is a broker's answer, without size and correlation.
func offsetFetchResponse(version int16, c committedOffset, code, overall int16) []byte {
	p := kmsg.NewOffsetFetchResponseTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = placeOfTests.partition, c.offset, -1, code
	if c.metadata != "" {
		p.Metadata = &c.metadata
	}
	topic := kmsg.NewOffsetFetchResponseTopic()
	topic.Topic, topic.Partitions = placeOfTests.topic, []kmsg.OffsetFetchResponseTopicPartition{p}
	res := kmsg.NewPtrOffsetFetchResponse()
	res.Version, res.ErrorCode, res.Topics = version, overall, []kmsg.OffsetFetchResponseTopic{topic}
	var b []byte
	if version >= stableOffsetFetch {
		b = append(b, 0) // the header's tags
		res.UnknownTags.Set(9, []byte("from a later broker"))
	}
	return res.AppendTo(b)
}

func FuzzOffsetFetchResponse(f *testing.F) {
	for _, version := range []int16{oldOffsetFetch, stableOffsetFetch} {
		f.Add(offsetFetchResponse(version, committedOffset{offset: 1 << 40, metadata: "m"}, 0, 0), version)
		f.Add(offsetFetchResponse(version, committedOffset{offset: -1}, 88, 0), version)
		f.Add(offsetFetchResponse(version, committedOffset{}, 0, 69), version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		got, err := decodeOffsetFetch(version, body, placeOfTests)
		if err != nil && got != (committedOffset{}) {
			t.Fatalf("%+v beside %v", got, err)
		}
		if got.offset < -1 || len(got.metadata) > len(body) {
			t.Fatalf("%+v", got)
		}
	})
}

// versionsConn answers a request with what it has.
type versionsConn struct {
	asked bytes.Buffer
	bytes.Reader
}

func (c *versionsConn) Write(b []byte) (int, error) { return c.asked.Write(b) }

func FuzzNewestVersion(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x1c\x00\x00\x00\x01" + "\x00\x00" + "\x00\x00\x00\x02" + "\x00\x08\x00\x02\x00\x09" + "\x00\x09\x00\x01\x00\x0a"))
	f.Add([]byte("\x00\x00\x00\x0a\x00\x00\x00\x01" + "\x00\x23" + "\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		c := new(versionsConn)
		c.Reset(frame)
		newest, err := newestVersion(c, "pore", protocol.OffsetFetch)
		if err != nil && newest != 0 {
			t.Fatalf("%d beside %v", newest, err)
		}
	})
}

func TestNewestVersion(t *testing.T) {
	for frame, want := range map[string]any{
		"00000016" + "00000001" + "0000" + "00000002" + "000800020009" + "00090001000a": int16(10),
		"00000010" + "00000001" + "0000" + "00000001" + "000800020009":                  kafka.UnsupportedVersion,
		"0000000a" + "00000001" + "0023" + "00000000":                                   kafka.UnsupportedVersion,
		"00000010" + "00000001" + "0000" + "00000009" + "000800020009":                  errShort,
	} {
		raw, err := hex.DecodeString(frame)
		require.NoError(t, err)
		c := new(versionsConn)
		c.Reset(raw)
		newest, err := newestVersion(c, "pore", protocol.OffsetFetch)
		if version, fine := want.(int16); fine {
			require.NoError(t, err)
			assert.Equal(t, version, newest)
			assert.Equal(t, "0000000e"+"0012"+"0000"+"00000001"+"0004"+"706f7265", hex.EncodeToString(c.asked.Bytes()))
			continue
		}
		require.ErrorIs(t, err, want.(error), frame)
	}
}

// A produce request names the transaction, in its own field and as a bit of the
// batch.
func TestTransactionalProduceAgreesWithFranz(t *testing.T) {
	for id, transactional := range map[string]bool{"": false, "basecall/signal/3": true} {
		batch := encodeBatch(nil, sampleOuts(), batchIdentity{producerID: 9, producerEpoch: 2, transactional: transactional}, nil)
		raw := append(encodeProduce(8, "pore", id, placeOfTests, time.Second, len(batch)), batch...)
		req := kmsg.NewPtrProduceRequest()
		req.Version = 8
		require.NoError(t, req.ReadFrom(raw[4+2+2+4+2+len("pore"):]))
		if transactional {
			require.NotNil(t, req.TransactionID)
			assert.Equal(t, id, *req.TransactionID)
		} else {
			assert.Nil(t, req.TransactionID)
		}
		var b kmsg.RecordBatch
		require.NoError(t, b.ReadFrom(req.Topics[0].Partitions[0].Records))
		assert.Equal(t, transactional, b.Attributes&attrTransactional != 0)
	}
}
