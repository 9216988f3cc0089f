package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/doctor"
)

type doctorCommand struct {
	Envoy     string        `help:"Envoy's admin interface: http://, https:// or unix:path; empty: don't look." default:"http://127.0.0.1:9901" placeholder:"URL"`
	Admin     string        `help:"tidemark's admin listener, the same." default:"http://127.0.0.1:9003" placeholder:"URL"`
	TokenFile string        `help:"File whose first line is a token of the admin listener." placeholder:"FILE"`
	Timeout   time.Duration `help:"How long to wait for each answer." default:"10s"`
	Output    string        `help:"Form of the answer: ${enum}." enum:"text,json" default:"text"`
}

// Run exits as check does: with 0 if nothing must be mended, with 1 if something must, with 2 if that cannot be said.
func (c *doctorCommand) Run() error {
	if c.Timeout <= 0 {
		return &exitError{exitUsage, errors.New("--timeout must be above 0")}
	}
	token, err := firstToken(c.TokenFile)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	report, err := doctor.Examine(context.Background(), doctor.Options{
		Envoy: c.Envoy, Admin: c.Admin, Token: token, Timeout: c.Timeout, Filters: knownFilters(), Now: time.Now(),
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return told(c.write(os.Stdout, report), report.Errors())
}

func (c *doctorCommand) write(w io.Writer, report *doctor.Report) error {
	if c.Output == "json" {
		return writeJSON(w, report)
	}
	var text strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintf(&text, "%s: %s: %s\n  at  %s\n  fix %s\n", f.Severity, f.Rule, f.Message, f.Where, f.Fix)
	}
	for _, seen := range []struct{ name, version string }{{"Envoy", report.Envoy}, {"tidemark", report.Tidemark}} {
		if seen.version != "" {
			fmt.Fprintf(&text, "%s %s, ", seen.name, seen.version)
		}
	}
	errs := report.Errors()
	_, err := fmt.Fprintf(w, "%s%d errors, %d warnings\n", text.String(), errs, len(report.Findings)-errs)
	return err
}

// firstToken is the first token of a file as admin.token_file has it: the one to use while a second is being introduced. Without a
// file there is none.
func firstToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line, nil
		}
	}
	return "", fmt.Errorf("read token: %s holds none", file)
}
