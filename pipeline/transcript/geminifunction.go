package transcript

// The calls and the results of a Gemini body.

const (
	gfID = iota
	gfName
	gfArgs
	gfResponse
	gfParts
)

func geminiFunctionKey(name string) int {
	switch name {
	case "id":
		return gfID
	case "name":
		return gfName
	case "args":
		return gfArgs
	case "response":
		return gfResponse
	case "parts":
		return gfParts
	}
	return unknownKey
}

// id is a string literal that says something, or an empty span.
func (s *scanner) id(v Span) Span {
	if !s.isString(v) || v.Len() == 2 {
		return Span{}
	}
	return v
}

func (p *parser) functionCall(u *union, depth int) error {
	var known seen
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, geminiFunctionKey)
		if err != nil {
			return err
		}
		v, err := s.skip(depth + 1)
		switch n {
		case gfID:
			u.call.ID = s.id(v)
		case gfName:
			u.call.Name = v
		case gfArgs:
			u.call.Input = v
		}
		return err
	})
	if err == nil && !p.isString(u.call.Name) {
		err = p.fault("a function call without a name")
	}
	return err
}

// functionResponse reads a result. Media stand beside its text, as parts.
func (p *parser) functionResponse(u *union, depth int) error {
	r := &u.result
	var id, media Span
	var known seen
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, geminiFunctionKey)
		if err != nil {
			return err
		}
		if n == gfResponse {
			return p.response(r, depth+1)
		}
		v, err := s.skip(depth + 1)
		switch n {
		case gfID:
			id = s.id(v)
		case gfName:
			r.name = v
		case gfParts:
			media = v
		}
		return err
	})
	if err == nil && !p.isString(r.name) {
		err = p.fault("a function response without a name")
	}
	r.CallID = id
	texts := uint32(len(p.ix.Texts))
	r.Texts = Span{texts, texts}
	if !p.blank(media) {
		if r.Form == StringForm {
			p.ix.Texts = append(p.ix.Texts, r.Content)
			r.Texts.Hi++
		}
		r.Form = MixedForm
	}
	return err
}

const (
	grOutput = iota
	grResult
	grContent
	grError
)

func responseKey(name string) int {
	switch name {
	case "output":
		return grOutput
	case "result":
		return grResult
	case "content":
		return grContent
	case "error":
		return grError
	}
	return unknownKey
}

// maxScalar is how long a value may be, in bytes, that says nothing of any size beside the text of a result.
const maxScalar = 128

// response reads what a function returned. Its text is the string called output, which the API's reference names; else result or
// content, as clients write; else the only string. The object keeps its shape, so one that holds anything more is left alone.
func (p *parser) response(r *Result, depth int) error {
	if p.peek() != '{' {
		v, err := p.skip(depth)
		if r.Content = v; err == nil && string(v.Of(p.b)) != "null" {
			r.Form = StrangeForm
		}
		return err
	}
	lo := p.i
	var known seen
	var named [grError]Span
	var only Span
	members, texts, large := 0, 0, 0
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, responseKey)
		if err != nil {
			return err
		}
		c := s.peek()
		v, err := s.skip(depth + 1)
		members++
		if v.Len() > maxScalar || c == '{' || c == '[' {
			large++
		}
		if c == '"' {
			texts++
			if only = v; n >= 0 && n < grError {
				named[n] = v
			}
		}
		r.IsError = r.IsError || n == grError && !p.blank(v) && c != 'f'
		return err
	})
	for _, v := range named {
		if v.Len() > 0 {
			only, texts = v, 1
			break
		}
	}
	if only.Len() > maxScalar {
		large--
	}
	r.Content, r.Form = Span{uint32(lo), uint32(p.i)}, StrangeForm
	switch {
	case members == 0:
		r.Form = NoContent
	case texts != 1 || large > 0:
	case only.Len() <= 2:
		r.Content, r.Form = only, NoContent
	default:
		r.Content, r.Form = only, StringForm
	}
	return err
}
