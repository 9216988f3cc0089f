package badgerdb

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/tidemark-dev/tidemark/state"
)

// killDir names the directory that a child of TestKill works in.
const killDir = "TIDEMARK_TEST_KILL_DIR"

const killSessions = 4

func killKey(session int) state.SessionKey {
	return state.SessionKey{Tenant: state.Digest{7}, Session: state.Digest{byte(session)}}
}

// killOriginal is the original of a version's decision: most are small, some are large, a few go to the value log.
func killOriginal(session int, version uint64) state.Original {
	size := 2000
	switch version % 8 {
	case 3:
		size = 700 << 10
	case 5:
		size = 1500 << 10
	}
	return original(fmt.Sprintf("%d of session %d", version, session), size)
}

// TestKill kills a process that commits, at random moments, several times over the same directory: every commit that it
// acknowledged is there with its originals, and so are the originals of a last commit that it did not live to acknowledge.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var acknowledged [killSessions]uint64
	var secret []byte
	for range 2 {
		for range 2 { // the second child finds what the first left
			acknowledge(t, dir, 1+rand.IntN(60), &acknowledged)
		}
		d := mustOpen(t, dir)
		for session, version := range acknowledged {
			verifyKilled(t, d, session, version)
		}
		now, err := d.Secret(ctx)
		if err != nil || secret != nil && !bytes.Equal(now, secret) {
			t.Errorf("secret %x became %x, %v", secret, now, err)
		}
		secret = now
		if d.Unreadable() > 0 {
			t.Errorf("%d records cannot be read", d.Unreadable())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// acknowledge runs a child until it acknowledged n commits, and kills it.
func acknowledge(t *testing.T, dir string, n int, acknowledged *[killSessions]uint64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	child.Env = append(os.Environ(), killDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for lines := bufio.NewScanner(out); lines.Scan(); { // to the end, so that no acknowledgement is missed
		var session int
		var version uint64
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d", &session, &version); err != nil {
			t.Errorf("the child says %q", lines.Text())
			break
		}
		acknowledged[session] = version
		if seen++; seen == n {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || seen < n {
		t.Fatalf("the child ended by itself after %d commits: %v", seen, err)
	}
}

func verifyKilled(t *testing.T, d *DB, session int, acknowledged uint64) {
	t.Helper()
	s, err := d.Load(ctx, killKey(session))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Branches, func(b *state.Branch) bool { return b.ID == 1 })
	if i < 0 {
		if acknowledged > 0 {
			t.Errorf("session %d is lost", session)
		}
		return
	}
	b := s.Branches[i]
	if b.Version < acknowledged || b.Version > acknowledged+1 {
		t.Errorf("session %d has version %d, %d was acknowledged", session, b.Version, acknowledged)
	}
	if uint64(len(b.InForce)) != b.Version {
		t.Fatalf("session %d has %d decisions at version %d", session, len(b.InForce), b.Version)
	}
	for i, decision := range b.InForce {
		want := killOriginal(session, uint64(i))
		if decision.ID != want.ID {
			t.Errorf("session %d: decision %d has id %q", session, i, decision.ID)
		}
		if o, err := d.Original(ctx, want.ID); err != nil || !bytes.Equal(o.Content, want.Content) {
			t.Errorf("session %d: original %d of %d: %v", session, i, b.Version, err)
		}
	}
}

// TestKillChild is what TestKill kills: each session commits one decision after another, while merges go on beside it.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("is run by TestKill")
	}
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var versions [killSessions]*state.Branch
	for session := range versions {
		versions[session] = &state.Branch{ID: 1, Chain: make([]state.Digest, 500)}
		s, err := d.Load(ctx, killKey(session))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range s.Branches {
			if b.ID == 1 {
				versions[session] = b
			}
		}
	}
	for session, b := range versions {
		go commitUntilKilled(d, session, b)
	}
	for i := 0; ; i++ {
		if _, err := d.Merge(ctx, killKey(i%killSessions), []*state.Branch{{ID: 2, Requests: i, Chain: make([]state.Digest, 2000)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func commitUntilKilled(d *DB, session int, b *state.Branch) {
	for ; ; b.Version++ {
		o := killOriginal(session, b.Version)
		b.InForce = append(b.InForce, state.Decision{ID: o.ID})
		if _, err := d.Commit(context.Background(), killKey(session), b, []state.Original{o}); err != nil {
			fmt.Println("commit:", err)
			os.Exit(1)
		}
		fmt.Println("ack", session, b.Version+1)
	}
}
