package transcript

// Explanation says how a call and its result are classified, and what says so.
type Explanation struct {
	Facts   CallFacts
	Row     string // what gave the role; empty if nothing did
	Outcome Outcome
	Why     string // what says the outcome
	Stub    bool   // the result is a reference to one before
	Cut     string // the notice by which the client says that it left something out
}

// Explain classifies one call and, if answered, its result, as an Index of the format does for the calls of a body. The input is a
// JSON object, or what the tool takes as text. Of results it reads the text alone, no flag.
func Explain(roles *RoleTable, format Format, name, input, result string, answered bool) Explanation {
	e := Explanation{Outcome: Unknown, Why: "no result"}
	e.Facts, e.Row = roles.classify(name, input, false)
	if answered {
		a := answerOf(result)
		e.Outcome, e.Why = a.judge(format, func() ToolRole { return e.Facts.Role })
		e.Stub, e.Cut = isStub(a.head), a.cut(e.Facts.Range.ends())
	}
	return e
}
