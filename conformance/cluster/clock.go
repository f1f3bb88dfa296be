package cluster

import (
	"context"
	_ "embed" // of clock/shift.c
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed clock/shift.c
var clockSource []byte

// BuildClock builds the library that shifts a process's wall clock into a folder. It needs the C compiler that Rust links with.
func BuildClock(ctx context.Context, folder string) (library string, err error) {
	source := filepath.Join(folder, "clock.c")
	if err := os.WriteFile(source, clockSource, 0o644); err != nil {
		return "", err
	}
	library = filepath.Join(folder, "clock.so")
	if output, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w: %s", err, output)
	}
	return library, nil
}

// ShiftedBy is the environment of a process whose wall clock is off. Programs that read it past the C library, as Go's do, don't notice.
func ShiftedBy(library string, offset time.Duration) []string {
	return []string{"LD_PRELOAD=" + library, fmt.Sprintf("SHIFT_SECONDS=%d", int(offset.Seconds()))}
}
