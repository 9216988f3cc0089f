package pipeline

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Memos together stay under their bound, and the latest are kept.
func TestMemosAreBounded(t *testing.T) {
	h := transcript.NewHasher(make([]byte, 32))
	body := `{"messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, 4_000) + `{"role":"user","content":"b"}]}`
	ix, err := transcript.Parse([]byte(body), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	ix.Digest(h)
	memo := ix.Memo(h)
	keep, err := newMemos[state.Digest, *transcript.Memo]()
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) (d state.Digest) { binary.LittleEndian.PutUint64(d[:], uint64(i)); return d }
	fit := memoBytes / memo.Size()
	for i := range 3 * fit {
		keep.put(key(i), memo)
		keep.put(key(i), memo) // in the place of the one before
		if keep.size > memoBytes || keep.size != keep.lru.Len()*memo.Size() {
			t.Fatalf("%d bytes in %d memos of %d", keep.size, keep.lru.Len(), memo.Size())
		}
	}
	if keep.get(key(3*fit-1)) == nil || keep.get(key(2*fit)) == nil || keep.get(key(fit)) != nil {
		t.Error("not the latest are kept")
	}
}

// A memo is found by whoever continues the conversation, and by nobody else.
func TestMemoKey(t *testing.T) {
	e := &Engine{hasher: transcript.NewHasher(make([]byte, 32))}
	head := strings.Repeat("x", memoHead)
	base := Request{Tenant: "t", Session: "s", Agent: "a", Body: []byte(head + "1")}
	key := e.memoKey(&base)
	goesOn := base
	goesOn.Body = []byte(head + "2")
	if e.memoKey(&goesOn) != key {
		t.Error("a longer body has another key")
	}
	for i, change := range []func(*Request){
		func(r *Request) { r.Tenant = "u" }, func(r *Request) { r.Session = "u" }, func(r *Request) { r.Agent = "u" },
		func(r *Request) { r.Tenant, r.Session = "ts", "" }, func(r *Request) { r.Session, r.Agent = "", "sa" },
		func(r *Request) { r.Body = []byte("y" + head) },
	} {
		other := base
		if change(&other); e.memoKey(&other) == key {
			t.Error(fmt.Sprint("change ", i, " leaves the key as it is"))
		}
	}
}
