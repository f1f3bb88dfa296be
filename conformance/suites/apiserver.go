package suites

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/replay"
)

var apiserver = Suite{
	Name:   "apiserver",
	Proves: "the embedded API server answers as kube-apiserver does, request by request, good and bad ones",
	Examples: []string{
		"apiserver",
	},
	Binaries: binaries.ControlPlaneSet,
	Deadline: 5 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		return embeddedSteps(flags, judgeReplay)
	},
}

// embeddedSteps are those of a suite about the embedded server: judge is given the path of the program that serves it.
func embeddedSteps(flags *flag.FlagSet, judge func(ctx context.Context, run *Run, serve string) error) Steps {
	build, serve := programFlag(flags, binaries.Serve), ""
	return Steps{
		Build: func(ctx context.Context, run *Run) (err error) {
			serve, err = build(ctx, run)
			return err
		},
		Judge: func(ctx context.Context, run *Run) error { return judge(ctx, run, serve) },
	}
}

func judgeReplay(ctx context.Context, run *Run, serve string) (err error) {
	script, err := replay.Script()
	if err != nil {
		return err
	}
	differences, err := replay.Differences()
	if err != nil {
		return err
	}
	run.Log("starting etcd and kube-apiserver")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	// Namespaces empty themselves: on the real server that is a controller's work.
	if err := c.StartControllers(ctx, []string{"namespace-controller"}); err != nil {
		return err
	}
	embedded, err := cluster.StartEmbedded(ctx, serve, run.Folder)
	if err != nil {
		return err
	}
	defer embedded.Stop()
	run.Log("playing %d requests", len(script))
	player := &replay.Player{Server: embedded.Client, Compact: embedded.Compact}
	real := &replay.Player{Server: c.Admin, Compact: func(ctx context.Context) error { return compactEtcd(ctx, c.Etcd) }}
	webhook, ca, stop, err := c.Serve(replay.Webhook())
	if err != nil {
		return err
	}
	defer stop()
	for _, player := range []*replay.Player{real, player} {
		player.Know("webhook", webhook)
		player.Know("webhookCa", base64.StdEncoding.EncodeToString(ca))
	}
	if err := replay.Run(ctx, script, differences, real, player, &run.Tally); err != nil {
		return err
	}
	run.Log("comparing the encodings of every kind")
	return replay.Encodings(ctx, player, &run.Tally)
}

// compactEtcd forgets etcd's history as the compactor of another kube-apiserver would: this one's own comes every five minutes.
func compactEtcd(ctx context.Context, etcd string) error {
	// The key by which apiservers tell one another what was compacted.
	key := base64.StdEncoding.EncodeToString([]byte("compact_rev_key"))
	var put struct{ Header struct{ Revision string } }
	if err := askEtcd(ctx, etcd+"/v3/kv/put", map[string]string{"key": key, "value": base64.StdEncoding.EncodeToString([]byte("1"))}, &put); err != nil {
		return err
	}
	revision := put.Header.Revision
	value := base64.StdEncoding.EncodeToString([]byte(revision))
	if err := askEtcd(ctx, etcd+"/v3/kv/put", map[string]string{"key": key, "value": value}, &put); err != nil {
		return err
	}
	return askEtcd(ctx, etcd+"/v3/kv/compaction", map[string]string{"revision": revision}, &struct{}{})
}

func askEtcd(ctx context.Context, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}
