package pipeline

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// planned is a block of the outbound as it was planned.
type planned struct {
	hash state.Digest
	kind transcript.Kind
	msg  int32
}

// plannedBlocks lists the blocks of the outbound, and where each block of the body stands among them.
func (o *outbound) plannedBlocks() (blocks []planned, at []int32, messages int) {
	at = make([]int32, o.ix.Len())
	msgs := make([]int32, len(o.ix.Messages))
	for m := range msgs {
		msgs[m] = int32(messages)
		if o.span == nil || !o.span.Dropped[m] {
			messages++
		}
	}
	stub, tools := o.span.first(o.ix), int32(-1)
	if o.tool != "" {
		tools = o.ix.LastTool()
	}
	for s := range int32(o.ix.Len()) {
		b := o.ix.Seq(s)
		if s == stub {
			blocks = append(blocks, planned{o.span.hash, transcript.Text, msgs[o.span.Head]})
		}
		if !o.sent(b) {
			continue
		}
		at[s] = int32(len(blocks))
		want := planned{b.Hash, b.Kind, b.Msg}
		if b.Msg >= 0 {
			want.msg = msgs[b.Msg]
		}
		if b.Result >= 0 && o.decided(b.Result) {
			want.hash = o.over[b.Result].Out
		}
		blocks = append(blocks, want)
		if s == tools {
			blocks = append(blocks, planned{o.h.Sum([]byte(o.tool)), transcript.Tool, transcript.InTools})
		}
	}
	return blocks, at, messages
}

// proveDeep parses the outbound again and compares it with what was planned: the same messages and blocks with the same
// digests, the decisions' digests where results are replaced, nothing of what a cut leaves out and its stub, and markers where
// they were put.
func (o *outbound) proveDeep(out []byte, plan *breakpoint.Plan) error {
	again, err := transcript.Parse(out, o.ix.Format)
	if err != nil {
		return fmt.Errorf("%w: %w", errProof, err)
	}
	defer again.Release()
	if again.Model == "" {
		again.Model = o.ix.Model // of the path
	}
	if again.Format.Automatic() {
		again.TopTTL = o.ix.TopTTL
	}
	again.Digest(o.h)
	blocks, at, messages := o.plannedBlocks()
	if o.tool == "" && again.Key != o.ix.Key || again.Parts.Model != o.ix.Parts.Model || again.Parts.System != o.ix.Parts.System || again.Len() != len(blocks) || len(again.Messages) != messages {
		return fmt.Errorf("%w: the outbound has another shape", errProof)
	}
	for s := range blocks {
		if b := again.Seq(int32(s)); b.Hash != blocks[s].hash || b.Kind != blocks[s].kind || b.Msg != blocks[s].msg {
			return fmt.Errorf("%w: block %d is not what was planned", errProof, s)
		}
	}
	if again.Diagnostics != (o.ix.Diagnostics || o.ask != "") {
		return fmt.Errorf("%w: the question is not what was planned", errProof)
	}
	marks := breakpoint.Client(again)
	if len(marks) != len(plan.Marks) {
		return fmt.Errorf("%w: %d markers, not %d", errProof, len(marks), len(plan.Marks))
	}
	for i := range marks {
		if marks[i].Seq != at[plan.Marks[i].Seq] || marks[i].TTL != plan.Marks[i].TTL {
			return fmt.Errorf("%w: marker %d is not where it was put", errProof, i)
		}
	}
	return nil
}
