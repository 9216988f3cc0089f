package badgerdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-dev/tidemark/state"
)

// Schema versions of records: the field names and types of [state.Branch], [state.Original] and [listing] as CBOR, and the
// same in one zstd frame. A field that is added reads as zero from older records; any other change needs new versions.
const (
	schema     = 1
	schemaZstd = 2
)

const (
	minZstd = 1 << 10  // bytes of CBOR from which on compression is tried; digests alone do not get smaller
	maxZstd = 64 << 20 // most bytes of CBOR that are compressed, and that a frame may claim when it is read
)

const secretSize = 32

var (
	secretKey = []byte{'k'}
	layoutKey = []byte{'l'}
)

func branchPrefix(k state.SessionKey) []byte {
	return append(append([]byte{'b'}, k.Tenant[:]...), k.Session[:]...)
}

func branchKey(k state.SessionKey, id uint64) []byte {
	return binary.BigEndian.AppendUint64(branchPrefix(k), id)
}

func stampKey(k state.SessionKey) []byte {
	return append(append([]byte{'s'}, k.Tenant[:]...), k.Session[:]...)
}

func headPrefix(tenant state.Digest, head [2]state.Digest) []byte {
	return append(append(append([]byte{'h'}, tenant[:]...), head[0][:]...), head[1][:]...)
}

func headKey(k state.SessionKey, head [2]state.Digest) []byte {
	return append(headPrefix(k.Tenant, head), k.Session[:]...)
}

func originalKey(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return append([]byte{'o'}, sum[:]...)
}

// ownerKey is the key of the record of whose an original is.
func ownerKey(id string) []byte { return append([]byte{'u'}, originalKey(id)[1:]...) }

// withdrawnKey is the key of a note that an original, given by its key, was withdrawn and its bytes are still in the files.
func withdrawnKey(original []byte) []byte { return append([]byte{'w'}, original[1:]...) }

// listPrefix is what all listings of a tenant's session begin with.
func listPrefix(k state.SessionKey) []byte {
	return append(append([]byte{'i'}, k.Tenant[:]...), k.Session[:]...)
}

func listKey(k state.SessionKey, id string) []byte {
	return append(listPrefix(k), originalKey(id)[1:]...)
}

// originalAt is the key of the original whose listing has the key at.
func originalAt(at []byte) []byte {
	return append([]byte{'o'}, at[len(at)-sha256.Size:]...)
}

// listing is what is known of an original without reading it.
type listing struct {
	Original state.Original // without its content
	Used     int64          // when it was last used, in nanoseconds since 1970; never twice the same
}

// codec turns values into records and back. Times keep their nanoseconds and lose their zone; strings may be any bytes;
// empty and absent slices stay what they are.
type codec struct {
	enc  cbor.EncMode
	dec  cbor.DecMode
	pack *zstd.Encoder
	open *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC}.EncMode()
	if err != nil {
		return nil, err
	}
	dec, err := cbor.DecOptions{
		UTF8:              cbor.UTF8DecodeInvalid,
		MaxArrayElements:  math.MaxInt32, // what was written must be read; lengths are checked against the bytes that are there
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	}.DecMode()
	if err != nil {
		return nil, err
	}
	pack, err := zstd.NewWriter(nil,
		zstd.WithWindowSize(1<<20),              // more costs memory and gains little
		zstd.WithAllLitEntropyCompression(true), // base64 repeats nothing
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
	)
	if err != nil {
		return nil, err
	}
	open, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxZstd), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, err
	}
	return &codec{enc, dec, pack, open}, nil
}

func (c *codec) encode(v any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte(schema)
	if err := c.enc.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	plain := b.Bytes()
	if n := len(plain) - 1; n >= minZstd && n <= maxZstd {
		packed := c.pack.EncodeAll(plain[1:], append(make([]byte, 0, len(plain)/2), schemaZstd))
		if len(packed) < len(plain)-len(plain)/8 { // else it is not worth the work of reading it
			return packed, nil
		}
	}
	return plain, nil
}

func (c *codec) decode(record []byte, v any) error {
	if len(record) == 0 {
		return errors.New("decode record: it is empty")
	}
	data := record[1:]
	switch record[0] {
	case schema:
	case schemaZstd:
		var err error
		if data, err = c.open.DecodeAll(data, nil); err != nil {
			return fmt.Errorf("decode record: %w", err)
		}
	default:
		return fmt.Errorf("decode record: unknown schema version %d", record[0])
	}
	if err := c.dec.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode record: %w", err)
	}
	return nil
}
