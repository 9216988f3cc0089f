package identity_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// TestSessionVectors plays testdata/lifecycle/session: neither headers nor body name a session, so there is none that two
// conversations could share.
func TestSessionVectors(t *testing.T) {
	cases, err := vectors.Sessions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var named []string
			for _, body := range [][]byte{c.A, c.B} {
				ix, err := transcript.Parse(body, transcript.Anthropic)
				if err != nil {
					t.Fatal(err)
				}
				defer ix.Release()
				id := identity.Of(headers{}.get, &identity.Settings{}).Session
				if id == "" {
					id = identity.FromBody(ix.UserID, "", "")
				}
				named = append(named, id)
			}
			if none := named[0] == "" && named[1] == ""; none != (c.Gate == "no_session") || (!none && named[0] == named[1]) != c.Same {
				t.Errorf("%s: sessions %q, gate %q, same %v", c.Shows, named, c.Gate, c.Same)
			}
		})
	}
}
