// witness watches an etcd and answers, line by line, what quotas say and what they should. conformance/run faults starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"kubequota.dev/conformance/witness"
)

func main() {
	klog.SetLogger(logr.Discard())
	etcd := flag.String("etcd", "", "`URL` of etcd")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := witness.Run(ctx, *etcd, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}
