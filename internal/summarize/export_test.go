package summarize

// Fit cuts a text to so many estimated tokens.
func Fit(text string, tokens int) (short string, cut bool) { return fit(text, tokens) }

// ReadAnswer reads an answer of either API.
func ReadAnswer(body []byte, anthropic bool) (text string, input, output int, err error) {
	read := readOpenAI
	if anthropic {
		read = readAnthropic
	}
	a, err := read(body)
	return a.text, a.input, a.output, err
}
