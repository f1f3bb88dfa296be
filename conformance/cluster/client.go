package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Object is any object of the API, as JSON has it.
type Object = map[string]any

// Client is the little of an API client that suites need. It is not client-go so that the harness builds in seconds, without a cache.
type Client struct {
	server, token string
	http          *http.Client
}

// Plain is a client of a server that speaks HTTP and asks for no token, as the embedded one does.
func Plain(server string) *Client {
	return &Client{server: server, http: &http.Client{Timeout: time.Minute}}
}

func newClient(server, caFile, token string) (*Client, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &Client{server: server, token: token, http: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64},
	}}, nil
}

// Get reads an object or a list.
func (c *Client) Get(ctx context.Context, path string) (Object, error) {
	return c.do(ctx, http.MethodGet, path, "", nil)
}

// Create posts an object to its collection.
func (c *Client) Create(ctx context.Context, path string, object Object) (Object, error) {
	return c.do(ctx, http.MethodPost, path, "application/json", object)
}

// Patch applies a JSON merge patch.
func (c *Client) Patch(ctx context.Context, path string, patch Object) (Object, error) {
	return c.do(ctx, http.MethodPatch, path, "application/merge-patch+json", patch)
}

// Delete deletes an object with a grace period.
func (c *Client) Delete(ctx context.Context, path string, graceSeconds int) (Object, error) {
	return c.do(ctx, http.MethodDelete, path, "application/json",
		Object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": graceSeconds})
}

// Request sends a request as it is and returns whatever the server answers. The caller closes the answer's body.
func (c *Client) Request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header.Clone()
	request.Header.Set("Authorization", "Bearer "+c.token)
	return c.http.Do(request)
}

func (c *Client) ready(ctx context.Context) error {
	_, err := c.Send(ctx, http.MethodGet, "/readyz", "", nil)
	return err
}

func (c *Client) do(ctx context.Context, method, path, contentType string, body Object) (Object, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	answer, err := c.Send(ctx, method, path, contentType, text)
	if err != nil {
		return nil, err
	}
	var object Object
	if err := json.Unmarshal(answer, &object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return object, nil
}

// Send sends a request and returns the body of its answer. An answer of failure is a [Refusal].
func (c *Client) Send(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	response, err := c.Request(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		var status struct{ Message string }
		if json.Unmarshal(answer, &status) == nil && status.Message != "" {
			answer = []byte(status.Message)
		}
		return nil, &Refusal{Code: response.StatusCode, text: fmt.Sprintf("%s %s: %s: %s", method, path, response.Status, answer)}
	}
	return answer, nil
}

// Refusal is an answer of failure.
type Refusal struct {
	// Code is the HTTP status.
	Code int
	text string
}

// Error says what was asked and what the server answered.
func (r *Refusal) Error() string { return r.text }

// IsCode says whether an error is an answer with this HTTP status.
func IsCode(err error, code int) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Code == code
}
