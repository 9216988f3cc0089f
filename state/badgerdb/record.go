package badgerdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fxamacker/cbor/v2"

	"github.com/tidemark-dev/tidemark/state"
)

// schema is the version of what records hold: the field names and types of [state.Branch] and [state.Original]. A field
// that is added reads as zero from older records; any other change needs a new version.
const schema = 1

const secretSize = 32

var secretKey = []byte{'k'}

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

// codec turns values into records and back. Times keep their nanoseconds and lose their zone; strings may be any bytes;
// empty and absent slices stay what they are.
type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
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
	return &codec{enc, dec}, nil
}

func (c *codec) encode(v any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte(schema)
	if err := c.enc.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return b.Bytes(), nil
}

func (c *codec) decode(record []byte, v any) error {
	if len(record) == 0 {
		return errors.New("decode record: it is empty")
	}
	if record[0] != schema {
		return fmt.Errorf("decode record: unknown schema version %d", record[0])
	}
	if err := c.dec.Unmarshal(record[1:], v); err != nil {
		return fmt.Errorf("decode record: %w", err)
	}
	return nil
}
