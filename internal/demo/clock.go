package demo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clock is the session's time, shared with the filter's process by a file.
type clock struct{ file string }

func (c *clock) set(at time.Time) error {
	if err := os.WriteFile(c.file, []byte(strconv.FormatInt(at.UnixNano(), 10)), 0o600); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	return nil
}

// Clock reads the session's time from the file that [Run] writes it to; without one it is the time of day.
func Clock(file string) func() time.Time {
	return func() time.Time {
		text, err := os.ReadFile(file)
		if err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				return time.Unix(0, n)
			}
		}
		return time.Now()
	}
}
