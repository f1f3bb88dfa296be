package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

// SlowProxy passes requests on to kube-apiserver, and lets those for which slow says so wait: for some time before they are sent, and for
// some before they are answered. It ends with ctx. What trusts the cluster's authority trusts it.
func (c *Cluster) SlowProxy(ctx context.Context, slow func(*http.Request) (before, after time.Duration)) (address string, err error) {
	server, err := url.Parse(c.Server)
	if err != nil {
		return "", err
	}
	ca, err := os.ReadFile(c.pki.ca)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	type after struct{}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(server) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64},
		// Watches are passed on event by event.
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			pause, _ := answer.Request.Context().Value(after{}).(time.Duration)
			return wait(answer.Request.Context(), pause)
		},
		// Who gives up waiting is no news.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	address, _, stop, err := c.Serve(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		before, behind := slow(request)
		if wait(request.Context(), before) == nil {
			proxy.ServeHTTP(answer, request.WithContext(context.WithValue(request.Context(), after{}, behind)))
		}
	}))
	if err == nil {
		context.AfterFunc(ctx, stop)
	}
	return address, err
}

func wait(ctx context.Context, duration time.Duration) error {
	if duration == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
