package gemini

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// signaturePrefix marks signatures that this simulator issued: base64, as all are. Others are taken as they are.
var signaturePrefix = base64.StdEncoding.EncodeToString([]byte("tidemark-sim"))

// issue is what the simulator knows about a signature that it issued.
type issue struct {
	kind     string
	bare     simkit.Digest // the part without it
	text     string        // of a text part
	thoughts string        // texts of the thoughts in that answer
}

// newSignature makes the signature of the answer.
func (s *Sim) newSignature() string {
	return signaturePrefix + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%012d", s.requests))
}

// checkSignatures refuses signatures that this simulator would have made and did not, and parts that are not what it signed.
func (s *Sim) checkSignatures(r *request) *Error {
	for _, c := range r.contents {
		for _, x := range c.parts {
			if !strings.HasPrefix(x.signature, signaturePrefix) {
				continue
			}
			from, issued := s.issued[x.signature]
			switch {
			case r.vertex && (!issued || !from.fits(x, c)):
				return unable("Thought signature is not valid.")
			case !issued:
				return refuse("Corrupted thought signature.")
			case !from.fits(x, c):
				return refuse("Invalid thought signature.")
			}
		}
	}
	return nil
}

// fits reports whether a part is the one that was signed, or what a stream leaves of it, and whether the thoughts of its content
// are those that led to it, or left out.
func (i issue) fits(x *part, c *content) bool {
	if c.thoughts != "" && c.thoughts != i.thoughts {
		return false
	}
	switch {
	case i.kind == "text" && (x.kind == "text" || x.kind == ""):
		return strings.HasSuffix(i.text, x.text)
	case i.kind == x.kind:
		return i.bare == x.bare
	}
	return false
}
