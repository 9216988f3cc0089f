package state

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// Digest is a keyed 128-bit hash.
type Digest = [16]byte

// TTL is how long a session is kept after its last use, and MaxBranches how many of its branches a store returns.
const (
	TTL         = 14 * 24 * time.Hour
	MaxBranches = 64
)

// Errors of a [Store].
var (
	ErrConflict  = errors.New("state: another writer was first") // the stored Version is not the one that was read
	ErrNotFound  = errors.New("state: not found")
	ErrWithdrawn = errors.New("state: the original is withdrawn")
	ErrFull      = errors.New("state: the tenant's originals take all bytes that they may, and all of them are needed")
)

// SessionKey names one session of one tenant. Both halves are keyed digests: raw ids never become keys.
type SessionKey struct{ Tenant, Session Digest }

// ResultRef names one tool result by its call id and by the digest of the result block as the client sent it, so that a
// result that the client changed is another result.
type ResultRef struct {
	Call  string
	Block Digest
}

// Decision says which bytes stand for a result on a branch, from now on. It is never changed once it is in force.
type Decision struct {
	Ref          ResultRef
	Msg          int32  // message of the result when it was decided
	Content      []byte // JSON value that stands for the result's content
	Out          Digest // digest of the block as it is forwarded
	Filter       string // who decided,
	Verdict      string // and why
	ID           string // restore id of the original; empty where the marker mode is lossy
	Tokens       int    // Est of the original,
	MarkerTokens int    // and of the marker
	At           time.Time
}

// Cut says which messages are not forwarded on a branch: whole exchanges between two messages that name it. A stub stands in
// their place, appended to the first of the two. It is never changed; a later one that goes further takes its place.
type Cut struct {
	Head       Digest   // message before the span
	Next       Digest   // first message behind it
	KeepHuman  bool     // what humans said in the span stays, with what they answered
	Stub       string   // text that stands for the span
	IDs        []string // restore ids of what it left out, the oldest first; none where the marker mode is lossy
	Filter     string
	Verdict    string
	Tokens     int // Est of all that was left out,
	StubTokens int // and of the stub
	At         time.Time
}

// Hold keeps a read verbatim and out of the provider's cache for a while.
type Hold struct {
	Ref  ResultRef
	Turn int32 // turn of its call
}

// Frontier is the last breakpoint of the branch's previous outbound.
type Frontier struct {
	ID    Digest // prefix id there; zero: the outbound carried no breakpoint
	Cells int32
}

// Branch is one conversation as the provider may have cached it.
type Branch struct {
	ID, Version uint64
	Commit      uint64     // id of the commit that wrote this version, 0 if none did
	Parent      uint64     // the branch that it was forked from, 0 if none
	Key         Digest     // model, system and tools
	Chain       []Digest   // digests of the client's messages; the chain at i is the sequence through message i
	InForce     []Decision // in the order in which they were made
	Held        []Hold
	Cut         *Cut          `cbor:",omitzero"`
	Tool        string        `cbor:",omitzero"` // definition of the tool that the conversation is offered, as it is forwarded; empty: none
	Entries     []cache.Entry // at most cache.MaxEntries
	Frontier    Frontier
	Requests    int
	Moves       int
	Last        time.Time // arrival of the last request
	Ledger      Ledger    `cbor:",omitzero"`
}

// Ledger is what a branch has cost and what the provider said of it. It is activity: it may lag, and decides nothing that
// must be replayed. Sizes are weights: characters of the prompt as the tokenizer feels them.
type Ledger struct {
	Parts    Parts   // digests of what the last prompt stood on
	Ratio    float64 // tokens of one character by the provider's last count, 0 before one
	Began    int32   // weight of the first outbound
	Read     int32   // tokens through the last breakpoint of the last outbound by the provider's count, 0 if unknown
	Short    float64 // bill of the input so far, modelled, if every breakpoint asked for five minutes, in uncached characters
	Premium  float64 // what lifts to an hour have cost beyond that, negative once they have paid
	Calls    int     // requests that were no retries
	Unlifted int     // lifts that did not hold
	Unread   int     // placed breakpoints in a row whose entries the next request did not read
	Misses   int     // answers in a row whose read fell far short of what was expected
	Braked   bool    // nothing new is decided any more
	Rewrites int     // warm moves so far; a fork inherits them
	Moved    int32   // turn of the last warm move
	Marked   bool    // the client has set breakpoints itself
	Message  string  // the provider's id of the last answer, for its diagnostics
	// Summaries are the summaries that were begun, those of what the branch was forked from included, and Settled those that
	// were begun before the last move. Both only grow, so that what several replicas have counted can be united.
	Summaries int `cbor:",omitzero"`
	Settled   int `cbor:",omitzero"`
}

// Attempts is how many summaries were begun since the last move.
func (l *Ledger) Attempts() int { return l.Summaries - l.Settled }

// Parts are digests of what a prompt stands on.
type Parts struct{ Model, Tools, System Digest }

// Fork is the ledger of a branch that begins as a copy: its bills start at zero, what was spent of a budget stays spent.
func (l *Ledger) Fork() Ledger {
	return Ledger{Parts: l.Parts, Ratio: l.Ratio, Calls: l.Calls, Unlifted: l.Unlifted, Rewrites: l.Rewrites, Moved: l.Moved, Marked: l.Marked, Summaries: l.Summaries, Settled: l.Settled}
}

// unite is the later ledger, with what either has spent.
func (l *Ledger) unite(later *Ledger) Ledger {
	u := *later
	u.Rewrites, u.Moved = max(l.Rewrites, later.Rewrites), max(l.Moved, later.Moved)
	u.Summaries, u.Settled = max(l.Summaries, later.Summaries), max(l.Settled, later.Settled)
	u.Braked, u.Marked = l.Braked || later.Braked, l.Marked || later.Marked
	return u
}

// Clone returns a copy that shares nothing that is ever written to. Decisions and cuts are immutable and stay shared.
func (b *Branch) Clone() *Branch {
	c := *b
	c.Chain = slices.Clone(b.Chain)
	c.InForce = slices.Clone(b.InForce)
	c.Held = slices.Clone(b.Held)
	c.Entries = slices.Clone(b.Entries)
	return &c
}

// Head is the digest that the tenant's index knows the branch by: its first two messages. ok is false if it has fewer.
func (b *Branch) Head() (head [2]Digest, ok bool) {
	if len(b.Chain) < 2 {
		return head, false
	}
	return [2]Digest{b.Chain[0], b.Chain[1]}, true
}

// InForceIDs returns every restore id that the branch has in force: those of its decisions, then those of its cut.
func (b *Branch) InForceIDs() (ids []string) {
	for i := range b.InForce {
		if id := b.InForce[i].ID; id != "" {
			ids = append(ids, id)
		}
	}
	if b.Cut != nil {
		ids = append(ids, b.Cut.IDs...)
	}
	return ids
}

// Alive reports whether the provider may hold any prefix of the branch.
func (b *Branch) Alive(now time.Time) bool {
	return slices.ContainsFunc(b.Entries, func(e cache.Entry) bool { return e.Alive(now) })
}

// Unite returns stored with the activity of seen added: entries and clocks of both, chain and frontier of the later one.
// Decisions, holds, the cut, the tool and the version are always those of stored.
func Unite(stored, seen *Branch, now time.Time) *Branch {
	c := stored.Clone()
	c.Entries = cache.Unite(stored.Entries, seen.Entries, now)
	c.Requests, c.Moves = max(stored.Requests, seen.Requests), max(stored.Moves, seen.Moves)
	if seen.Last.Before(stored.Last) {
		c.Ledger = seen.Ledger.unite(&stored.Ledger)
	} else {
		c.Last, c.Key, c.Frontier = seen.Last, seen.Key, seen.Frontier
		c.Chain = slices.Clone(seen.Chain)
		c.Ledger = stored.Ledger.unite(&seen.Ledger)
	}
	return c
}

// Next returns what a store keeps when b is committed over stored, which is nil if there is nothing: decisions, holds, cut and tool
// of b, the activity of both, and the version after that of b.
func Next(stored, b *Branch) *Branch {
	c := b.Clone()
	if stored != nil {
		c = Unite(stored, b, b.Last)
		c.InForce, c.Held, c.Cut, c.Tool = slices.Clone(b.InForce), slices.Clone(b.Held), b.Cut, b.Tool
		c.Parent, c.Commit = b.Parent, b.Commit
	}
	c.Version = b.Version + 1
	return c
}

// Recent sorts branches by their last request, the latest first, and returns at most MaxBranches of them.
func Recent(branches []*Branch) []*Branch {
	slices.SortFunc(branches, func(a, b *Branch) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID)) })
	return branches[:min(len(branches), MaxBranches)]
}

// Fate is what became of an original.
type Fate uint8

// Fates of an original.
const (
	Kept      Fate = iota // it is given back to whoever has its id
	Sealed                // it is kept, and refused until an operator lifts the seal
	Withdrawn             // its content is gone for good, and this is its tombstone
)

// Original is the exact raw JSON value that a marker stands for. Of a tombstone, Content, SHA256 and About are gone: the digest
// of a short text tells it to whoever tries all such texts, and what a text was about may quote it.
type Original struct {
	ID      string // 24 hex digits, an unguessable capability
	Session SessionKey
	Call    string
	Tool    string
	Content []byte // raw JSON: a string or a list of text blocks
	SHA256  [32]byte
	At      time.Time
	Fate    Fate   `cbor:",omitzero"`
	About   string `cbor:",omitzero"` // what it was, for lists: tool, path, range; at most a few hundred bytes
	Size    int    `cbor:",omitzero"` // bytes of Content, also of one that is listed without it and of a tombstone
	Filter  string `cbor:",omitzero"` // whose decision left it out
}

// Listed returns o without its content, as lists show it.
func (o *Original) Listed() Original {
	listed := *o
	listed.Content = nil
	return listed
}

// Tombstone returns what is left of o once it is withdrawn.
func (o *Original) Tombstone() Original {
	tombstone := o.Listed()
	tombstone.SHA256, tombstone.About, tombstone.Fate = [32]byte{}, "", Withdrawn
	return tombstone
}

// Latest sorts originals by their time, the latest first, and those of one time by their ids.
func Latest(originals []Original) []Original {
	slices.SortFunc(originals, func(a, b Original) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return originals
}

// Session is what a store holds of one session.
type Session struct {
	Stamp    uint64 // changes with every write to any branch of the session; 0: nothing is stored
	Branches []*Branch
}

// Store keeps branches and originals. It is safe for concurrent use by any number of processes that share it.
// Every error but those of this package means that the store cannot be relied on now; of a write it leaves open whether it
// took place. A Commit or Merge adds one to the session's stamp, more if it takes several transactions.
//
// A store may cap the bytes that the originals of a tenant take, as their contents; tombstones take none. A Commit that
// would exceed the cap evicts originals of that tenant, the least recently used first, until there is room: they are then
// absent. It evicts none that it writes or that its branch has in force, none that is in force on a branch that is Alive at
// the Last of its branch, and none that is sealed, as the seal would be lost with it. Where that does not make room enough,
// it evicts nothing and fails.
type Store interface {
	// Secret returns the server's secret of 32 bytes, made at first use and the same ever after.
	Secret(ctx context.Context) ([]byte, error)
	// Load returns the branches of a session, the latest first and at most MaxBranches. A record that cannot be read counts
	// as absent.
	Load(ctx context.Context, key SessionKey) (Session, error)
	// Stamp returns Session.Stamp without the branches.
	Stamp(ctx context.Context, key SessionKey) (uint64, error)
	// Commit makes originals durable, then the branch, then syncs. It fails with ErrConflict if the stored version of the
	// branch is not b.Version (0: nothing was committed yet); then nothing but originals was written. It fails with ErrFull
	// if the originals would exceed the tenant's cap; then nothing was written. What is written is Next of both; b itself is
	// not changed. Originals become those of the session, with their Size and as Kept, whatever they say; but one whose id
	// is a tombstone or sealed stays what it is.
	Commit(ctx context.Context, key SessionKey, b *Branch, originals []Original) (stamp uint64, err error)
	// Merge unites activity with what is stored, by Unite at the time of that activity. A branch that is not stored is
	// stored as it is. Decisions never change by Merge. It does not sync.
	Merge(ctx context.Context, key SessionKey, branches []*Branch) (stamp uint64, err error)
	// Heads returns the sessions of the tenant that hold, or held, a branch with these first two messages.
	Heads(ctx context.Context, tenant Digest, head [2]Digest) ([]SessionKey, error)
	// Original returns an original by its id, whatever its Fate is, or ErrNotFound. A sealed one comes with its content: to
	// refuse it is the caller's duty. It counts as a use: what is read is kept for another TTL, and is evicted later.
	Original(ctx context.Context, id string) (*Original, error)
	// Owner returns the session of an original, whatever its Fate is, or ErrNotFound. It reads nothing of the content and
	// counts as no use, so that whoever may not have the original learns nothing by the time it takes and changes nothing.
	Owner(ctx context.Context, id string) (SessionKey, error)
	// Originals returns the originals of a session without their content, the latest first, tombstones included.
	Originals(ctx context.Context, key SessionKey) ([]Original, error)
	// Seal seals an original or lifts its seal, durably. It fails with ErrNotFound, and of a tombstone with ErrWithdrawn.
	Seal(ctx context.Context, id string, sealed bool) error
	// Withdraw makes tombstones of all originals of a session, durably, and returns how many of them had content until then.
	Withdraw(ctx context.Context, key SessionKey) (n int, err error)
	Close() error
}
