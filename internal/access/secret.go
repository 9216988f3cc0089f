package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keySize is the size of the server's secret and of keys of encryption, in bytes.
const keySize = 32

// ReadSecret reads the server's secret from a file that holds at least 32 bytes of anything. The secret is a hash of them, white
// space at the end left out: editors put a newline there. An error quotes nothing of the file.
func ReadSecret(file string) ([]byte, error) {
	b, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	b = []byte(strings.TrimRight(string(b), " \t\r\n"))
	if len(b) < keySize {
		return nil, fmt.Errorf("read secret: %s holds less than %d bytes", file, keySize)
	}
	sum := sha256.Sum256(append([]byte("tidemark secret\x00"), b...))
	return sum[:], nil
}

// ReadKeys reads keys of encryption from a file, one per line: 32 bytes in hex or base64. The first is the one in use. Blank lines
// and those that begin with # say nothing. An error quotes nothing of the file.
func ReadKeys(file string) ([][]byte, error) {
	b, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read encryption keys: %w", err)
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("read encryption keys: %s: %w", file, err)
	}
	return keys, nil
}

func parseKeys(content []byte) (keys [][]byte, err error) {
	at := map[string]int{}
	for n, line := range lines(content) {
		key := parseKey(string(line))
		if key == nil {
			return nil, fmt.Errorf("line %d is not %d bytes in hex or base64", n, keySize)
		}
		if before, ok := at[string(key)]; ok {
			return nil, fmt.Errorf("line %d is the key of line %d", n, before)
		}
		at[string(key)] = n
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the file holds no key")
	}
	return keys, nil
}

// parseKey reads 32 bytes, nil if the text is not that. In hex they are 64 characters and in base64 43, so no text is both.
func parseKey(text string) []byte {
	decode := hex.DecodeString
	if len(text) != hex.EncodedLen(keySize) {
		text = strings.TrimRight(text, "=")
		decode = base64.RawStdEncoding.Strict().DecodeString
		if strings.ContainsAny(text, "-_") {
			decode = base64.RawURLEncoding.Strict().DecodeString
		}
	}
	key, err := decode(text)
	if err != nil || len(key) != keySize {
		return nil
	}
	return key
}
