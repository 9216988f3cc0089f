package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// TokenHeader may hold the token too, for requests whose Authorization is a credential of another kind.
const TokenHeader = "X-Tidemark-Token" //nolint:gosec // the name of a header

// minToken is the shortest token, in bytes: 16 of hex are 64 bits, too many to try over a network.
const minToken = 16

// Tokens are the bearer tokens that a listener takes.
type Tokens struct{ files *files[[]digest] }

type digest [sha256.Size]byte

// NewTokens reads a file of tokens, one per line. A second line is for the time in which clients change from one to the other.
// Blank lines and those that begin with # say nothing. An error names the file and quotes nothing of it.
func NewTokens(file string, log *slog.Logger) (*Tokens, error) {
	f, err := open(log, func(contents [][]byte) ([]digest, error) { return parseTokens(contents[0]) }, file)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return &Tokens{f}, nil
}

// lines yields the lines of a file of credentials that say something, without white space around them, and their numbers.
func lines(content []byte) func(yield func(n int, line []byte) bool) {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.Lines(content) {
			n++
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

func parseTokens(content []byte) (tokens []digest, err error) {
	for n, line := range lines(content) {
		switch {
		case len(line) < minToken:
			return nil, fmt.Errorf("line %d: a token has at least %d characters", n, minToken)
		case bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("line %d: a token is printable ASCII without spaces", n)
		}
		tokens = append(tokens, sha256.Sum256(line))
	}
	if len(tokens) == 0 {
		return nil, errors.New("the file holds no token")
	}
	return tokens, nil
}

// bear takes the token out of a request's headers, which it changes, and reports whether it is one of the tokens. An
// Authorization that was not needed for it stays: it is a credential of another kind.
func (t *Tokens) bear(h http.Header) bool {
	token, given := h.Get(TokenHeader), len(h.Values(TokenHeader)) > 0
	h.Del(TokenHeader)
	if !given {
		token = bearer(h.Get("Authorization"))
		h.Del("Authorization")
	}
	return t.has(token)
}

// has compares in a time that depends on the number of tokens alone.
func (t *Tokens) has(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for _, known := range t.files.get() {
		found |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	return found == 1
}

// bearer is the token of an Authorization header (RFC 6750), empty if it is of another scheme.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
