package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

type checkCommand struct {
	configFlags

	Files  []string `arg:"" optional:"" name:"file" help:"Server configs, Envoy configs, Kubernetes resources; YAML or JSON."`
	Output string   `help:"Form of the answer: ${enum}." enum:"text,json" default:"text"`
	Print  bool     `help:"Print the effective server config of --config, environment and flags, and where each value came from."`
	Call   *string  `help:"Say how this tool call is classified: as it stands in a request, or {\"name\": …, \"arguments\": …}." placeholder:"JSON"`
	Result *string  `help:"With --call: the text that answers it." placeholder:"TEXT"`
}

// Run exits with 0 if nothing must be mended, with 1 if something must, with 2 if that cannot be said.
func (c *checkCommand) Run() error {
	if c.Call != nil {
		return c.call(os.Stdout)
	}
	switch {
	case c.Print:
		if err := c.print(os.Stdout); err != nil {
			return &exitError{exitUsage, err}
		}
	case c.Config != "":
		c.Files = append(c.Files, c.Config)
	}
	if len(c.Files) == 0 {
		if c.Print {
			return nil
		}
		return &exitError{exitUsage, errors.New("no file to check")}
	}
	report, err := check.Files(c.Files, knownFilters())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return told(c.write(os.Stdout, report), report.Errors())
}

// told is how a command ends that reports findings: well, with errors among them, or without having been able to write them.
func told(err error, errs int) error {
	switch {
	case err != nil:
		return &exitError{exitUsage, err}
	case errs > 0:
		return &exitError{code: exitFailed}
	}
	return nil
}

func (c *checkCommand) write(w io.Writer, report *check.Report) error {
	if c.Output == "json" {
		return writeJSON(w, report)
	}
	var lines strings.Builder
	for _, f := range report.Findings {
		lines.WriteString(f.String() + "\n")
	}
	errs := report.Errors()
	_, err := fmt.Fprintf(w, "%s%d server configs, %d route configs, %d ext_proc filters: %d errors, %d warnings\n",
		lines.String(), report.Servers, report.Routes, report.Filters, errs, len(report.Findings)-errs)
	return err
}

// call says how a tool call is classified on the server's default route.
func (c *checkCommand) call(w io.Writer) error {
	l, err := serverconfig.Load(c.sources())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	report, err := check.Call(l.Routes.Default().Config.Roles, *c.Call, c.Result)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--call: %w", err)}
	}
	if c.Output == "json" {
		return writeJSON(w, report)
	}
	_, err = io.WriteString(w, report.String())
	return err
}

// print writes the config that serve would run with.
func (c *checkCommand) print(w io.Writer) error {
	l, err := serverconfig.Load(c.sources())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(w, l.Settings())
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range l.Settings() {
		value, err := json.Marshal(s.Value)
		if err != nil {
			return fmt.Errorf("print %s: %w", s.Key, err)
		}
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\n", s.Key, s.Origin, value); err != nil {
			return fmt.Errorf("print %s: %w", s.Key, err)
		}
	}
	return t.Flush()
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
