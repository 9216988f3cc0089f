package badgerdb

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

var at = time.Date(2026, 11, 29, 12, 30, 15, 123_456_789, time.UTC)

// goldenBranch has a value of its own in every field.
func goldenBranch() *state.Branch {
	digest := func(n byte) state.Digest { return state.Digest{n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, n} }
	return &state.Branch{
		ID: 1<<63 + 1, Version: 300, Parent: 3,
		Key:   digest(4),
		Chain: []state.Digest{digest(5), digest(6)},
		InForce: []state.Decision{{
			Ref: state.ResultRef{Call: "toolu_01\xff", Block: digest(7)}, Msg: 8, Content: []byte(`"[tidemark …]"`), Out: digest(9),
			Filter: "tiered", Verdict: "tier1", ID: "0123456789abcdef01234567", Tokens: 1200, MarkerTokens: 45, At: at,
		}},
		Held: []state.Hold{{Ref: state.ResultRef{Call: "toolu_02", Block: digest(10)}, Turn: 11}},
		Entries: []cache.Entry{
			{Key: digest(12), ID: digest(13), Cells: 14, Msg: -2, TTL: cache.Long, Start: at.Add(1)},
			{Cells: 0, Msg: 15, Assumed: true, TTL: cache.Short, Start: at.Add(-time.Hour)},
		},
		Frontier: state.Frontier{ID: digest(16), Cells: 17},
		Requests: 18, Moves: 19,
		Last: at.Add(time.Second),
	}
}

// goldenLedger has what later builds added to a branch.
func goldenLedger() *state.Branch {
	digest := func(n byte) state.Digest { return state.Digest{n} }
	return &state.Branch{
		ID: 1,
		Entries: []cache.Entry{{
			Key: digest(1), ID: digest(2), Cells: 3, Msg: 4, TTL: cache.Short, Start: at, Weight: 5, Thoughts: 6, Tokens: 7,
			Sure: at.Add(-1), SureTTL: cache.Long,
		}},
		Last: at,
		Ledger: state.Ledger{
			Parts: state.Parts{Model: digest(8), Tools: digest(9), System: digest(10)}, Ratio: 0.25, Began: 11, Read: 13,
			Short: 14.5, Premium: -15.5, Calls: 20, Unlifted: 21, Unread: 22, Misses: 16, Braked: true, Rewrites: 17, Moved: 18, Marked: true, Message: "msg_19",
		},
	}
}

// goldenCut has what a cut added to a branch, and what summaries added to its ledger.
func goldenCut() *state.Branch {
	return &state.Branch{
		ID: 1, Last: at,
		Cut: &state.Cut{
			Head: state.Digest{1, 2}, Next: state.Digest{3, 4}, KeepHuman: true, Stub: "[tidemark cut: …]\n[tidemark cut: …]",
			IDs: []string{"0123456789abcdef01234567", "89abcdef0123456789abcdef"}, Filter: "shed", Verdict: "recut",
			Tokens: 48_000, StubTokens: 60, At: at.Add(time.Second),
		},
		Ledger: state.Ledger{Summaries: 2, Settled: 1},
	}
}

func goldenOriginal() *state.Original {
	return &state.Original{
		ID: "0123456789abcdef01234567", Session: state.SessionKey{Tenant: state.Digest{1, 2}, Session: state.Digest{3, 4}},
		Call: "toolu_01", Tool: "Read", Content: []byte(`[{"type":"text","text":"\ud800"}]`), SHA256: [32]byte{5, 6}, At: at,
	}
}

func goldenListing() *listing {
	o := goldenOriginal()
	o.Fate, o.About, o.Size, o.Filter = state.Sealed, "Read of a.go", 33, "tiered"
	return &listing{Original: o.Listed(), Used: 1 << 60}
}

// TestGoldenPacked: a record that an earlier build compressed is read. Other builds may compress in other ways.
func TestGoldenPacked(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/original.v2.hex")
	if err != nil {
		t.Fatal(err)
	}
	record, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	want := goldenOriginal()
	want.Content = bytes.Repeat(want.Content, 100)
	var got state.Original
	if err := codec.decode(record, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, &got); d != "" {
		t.Errorf("original (-want +got):\n%s", d)
	}
	if again, err := codec.encode(want); err != nil || again[0] != schemaZstd {
		t.Errorf("it is not compressed any more: %v", err)
	}
}

// TestDecodeTooMuch: a record that claims more than is ever compressed is refused before it takes memory, however it does so.
func TestDecodeTooMuch(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	pack := func(size int, o ...zstd.EOption) []byte {
		w, err := zstd.NewWriter(nil, o...)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(make([]byte, size), []byte{schemaZstd})
	}
	claims := []byte{schemaZstd, 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0} // 2^62 bytes, and one empty block
	streamed := bytes.NewBuffer([]byte{schemaZstd})
	w, err := zstd.NewWriter(streamed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeroes{}, maxZstd+1); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, record := range map[string][]byte{
		"one frame":             pack(maxZstd + 1),
		"two frames":            append(pack(maxZstd), pack(maxZstd)[1:]...),
		"a size without data":   claims,
		"a frame of no size":    streamed.Bytes(),
		"a frame in one window": pack(maxZstd+1, zstd.WithSingleSegment(true)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var o state.Original
		if err := codec.decode(record, &o); err == nil {
			t.Errorf("%s was read", name)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 6*maxZstd {
			t.Errorf("%s took %d MiB", name, took>>20)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestLargeIsNotPacked: what is too large to be compressed is stored all the same.
func TestLargeIsNotPacked(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	want := state.Original{Content: make([]byte, maxZstd)}
	record, err := codec.encode(&want)
	if err != nil || record[0] != schema {
		t.Fatalf("a record of version %d, %v", record[0], err)
	}
	var got state.Original
	if err := codec.decode(record, &got); err != nil || !bytes.Equal(got.Content, want.Content) {
		t.Errorf("it does not come back: %v", err)
	}
}

// TestGolden: records that an earlier build wrote are read, and this build writes the same. A difference is a change of the
// schema: it needs a new version, and a file of its own beside these.
func TestGolden(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	for name, golden := range map[string]struct{ value, back any }{
		"branch":   {goldenBranch(), &state.Branch{}},
		"ledger":   {goldenLedger(), &state.Branch{}},
		"cut":      {goldenCut(), &state.Branch{}},
		"original": {goldenOriginal(), &state.Original{}},
		"listing":  {goldenListing(), &listing{}},
		"owner":    {&key, &state.SessionKey{}},
		"note":     {&note{Listing: []byte{1, 2}, Large: true}, &note{}},
		"stamp":    {new(uint64(1 << 40)), new(uint64)},
	} {
		text, err := os.ReadFile("testdata/" + name + ".v1.hex")
		if err != nil {
			t.Fatal(err)
		}
		record, err := codec.encode(golden.value)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(strings.Fields(string(text)), "")
		if got := hex.EncodeToString(record); got != want {
			t.Errorf("%s is written as\n%s\nwant\n%s", name, got, want)
		}
		old, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := codec.decode(old, golden.back); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(golden.value, golden.back); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// FuzzDecode: a record of any bytes is refused, or is a branch that is written and read back the same.
func FuzzDecode(f *testing.F) {
	codec, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	record, err := codec.encode(goldenBranch())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record)
	f.Add(record[:len(record)/2])
	long := goldenBranch()
	long.Chain = make([]state.Digest, 200)
	packed, err := codec.encode(long)
	if err != nil || packed[0] != schemaZstd {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(packed[:len(packed)/2])
	f.Add([]byte{})
	f.Add([]byte{schema, 0xf6})
	f.Add([]byte{schema, 0x9f})
	f.Fuzz(func(t *testing.T, record []byte) {
		var b, back state.Branch
		if codec.decode(record, &b) != nil {
			return
		}
		again, err := codec.encode(&b)
		if err != nil {
			return // a time that no record of ours holds
		}
		if err := codec.decode(again, &back); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if d := cmp.Diff(b, back); d != "" {
			t.Fatalf("branch (-first +second):\n%s", d)
		}
	})
}

// TestDecodeCut: no beginning of a record passes for a record.
func TestDecodeCut(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		record, err := codec.encode(statetest.Branches().Draw(t, "branch"))
		if err != nil {
			t.Fatal(err)
		}
		var b state.Branch
		if codec.decode(record[:rapid.IntRange(0, len(record)-1).Draw(t, "length")], &b) == nil {
			t.Fatal("half a record was read")
		}
	})
}
