package transcript

import "strings"

// refusals begin the results of calls that their client refused or could not run, whatever the error flag says.
var refusals = []string{"<tool_use_error>", "Error: No such tool available"}

// stubs begin the results by which a client says that it sent the content before. They are no reads.
var stubs = []string{"File unchanged since last read", "[file unchanged since last read"}

// exits are the envelopes in which clients report a shell command's exit code; a code other than 0 follows.
var exits = []string{"Exit code ", "Exit code: ", "<returncode>", "Process exited with code "}

// headBytes is how much of a result is looked at to tell its outcome, as it stands: an escape takes up to six bytes.
const headBytes = 240

// ResultOutcome is what is known of the call that a result answers.
func (ix *Index) ResultOutcome(r *Result) Outcome {
	if r.IsError {
		return Failed
	}
	head := ix.head(r)
	for _, p := range refusals {
		if strings.HasPrefix(head, p) {
			return Failed
		}
	}
	for _, p := range exits {
		if rest, ok := strings.CutPrefix(head, p); ok {
			code := strings.TrimLeft(rest, " ")
			if code != "" && code[0] >= '1' && code[0] <= '9' || strings.HasPrefix(code, "-") {
				return Failed
			}
		}
	}
	return Succeeded // the format has an error flag
}

// IsStub reports whether a client answered a re-read by a reference to what it sent before.
func (ix *Index) IsStub(r *Result) bool {
	head := ix.head(r)
	for _, p := range stubs {
		if strings.HasPrefix(head, p) {
			return true
		}
	}
	return false
}

// head is the beginning of a result's text.
func (ix *Index) head(r *Result) string { return ix.ResultHead(r, headBytes) }

// ResultHead is the beginning of a result's text, of its first block if there are several: what the first n bytes stand
// for in the body, where an escape takes up to six. It may alias the body, and costs no more for a long text than for a
// short one.
func (ix *Index) ResultHead(r *Result, n int) string {
	s := r.Content
	if r.Form == TextForm || r.Form == MixedForm {
		if r.Texts.Len() == 0 {
			return ""
		}
		s = ix.Texts[r.Texts.Lo]
	} else if r.Form != StringForm {
		return ""
	}
	return opening(view(ix.Body[s.Lo+1:s.Hi-1]), n)
}
