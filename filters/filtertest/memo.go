package filtertest

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// keeper keeps one filter's memo as the engine does: for transcripts that begin with the messages it stands for.
type keeper struct {
	filter string
	ix     *transcript.Index // of the request, with digests
	kept   filters.Memo
	chain  []transcript.Digest
	err    error
}

// memo is the view's function.
func (k *keeper) memo(filter string, grow func(kept filters.Memo) filters.Memo) filters.Memo {
	chain := make([]transcript.Digest, len(k.ix.Messages))
	for i := range k.ix.Messages {
		chain[i] = k.ix.Messages[i].Hash
	}
	kept := k.kept
	if len(k.chain) > len(chain) || !slices.Equal(k.chain, chain[:len(k.chain)]) {
		kept = nil
	}
	grown := grow(kept)
	switch {
	case filter != k.filter:
		k.err = fmt.Errorf("the memo of %q", filter)
	case grown == nil:
		k.err = errors.New("a memo grew into nothing")
	case grown.Messages() < 0 || int(grown.Messages()) > len(chain):
		k.err = fmt.Errorf("a memo stands for %d messages of %d", grown.Messages(), len(chain))
	case grown.Size() <= 0:
		k.err = fmt.Errorf("a memo holds %d bytes", grown.Size())
	default:
		k.kept, k.chain = grown, chain[:grown.Messages()]
	}
	return grown
}

// checkMemo draws a session that grows, and is taken back now and then, and asks the filter about each body with what it
// kept and with nothing kept. The answers must be the same.
func checkMemo(t *rapid.T, f filters.Filter) error {
	s := Sessions(AnyIDs).Draw(t, "session")
	h := transcript.NewHasher([]byte("filtertest"))
	k := keeper{filter: f.Name()}
	for range rapid.IntRange(2, 5).Draw(t, "requests") {
		n := rapid.IntRange(1, len(s)).Draw(t, "turns")
		part := slices.Clone(s[:n])
		if rapid.IntRange(0, 3).Draw(t, "as lists") == 0 { // which changes no digest
			part = part.asLists()
		}
		ix, err := transcript.Parse(part.Body(), transcript.Anthropic)
		if err != nil {
			return err
		}
		ix.Digest(h)
		v := DrawView(t, ix)
		v.Memo = nil
		without := ask(f, v)
		k.ix, v.Memo = ix, k.memo
		with := ask(f, v)
		ix.Release()
		switch {
		case k.err != nil:
			return k.err
		case !slices.EqualFunc(with.proposals, without.proposals, same):
			return fmt.Errorf("with a memo: %+v\nwithout one: %+v", with.proposals, without.proposals)
		}
	}
	return nil
}

// asLists writes every result that is a string as a list of one text block.
func (s Session) asLists() Session {
	lists := make(Session, len(s))
	for i, t := range s {
		calls := slices.Clone(t.Calls)
		for j := range calls {
			if a := calls[j].Answer; a != nil && a.Shape == String {
				list := *a
				list.Shape = List
				calls[j].Answer = &list
			}
		}
		lists[i] = Turn{Calls: calls}
	}
	return lists
}
