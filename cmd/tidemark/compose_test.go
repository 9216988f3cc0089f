package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/compose-spec/compose-go/v2/cli"
)

// TestCompose loads the compose file with compose's own parser: what it mounts is there, and every command of ours parses.
func TestCompose(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{filepath.Join("..", "..", "examples", "compose", "compose.yaml")}, cli.WithProfiles([]string{"*"}), cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := o.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts %s: %v", name, v.Source, err)
			}
		}
		if s.Build == nil {
			continue
		}
		ours++
		if _, err := os.Stat(filepath.Join(s.Build.Context, "Dockerfile")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var c commands
		parser, err := kong.New(&c, kong.Vars{"version": ""}, kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(s.Command); err != nil {
			t.Errorf("%s runs %v: %v", name, s.Command, err)
		}
		if !s.ReadOnly || s.NetworkMode != "service:envoy" {
			t.Errorf("%s: read-only %v, network %s", name, s.ReadOnly, s.NetworkMode)
		}
	}
	if ours != 3 {
		t.Errorf("%d services run tidemark, not 3", ours)
	}
}
