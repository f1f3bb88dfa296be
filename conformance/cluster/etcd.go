package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Store is etcd, spoken to in its JSON over HTTP. What kube-apiserver keeps is under /registry/.
type Store struct {
	url  string
	http *http.Client
}

// NewStore is the etcd at an address.
func NewStore(url string) *Store { return &Store{url: url, http: &http.Client{}} }

// ErrCompacted is that the revision to watch from is no longer kept.
var ErrCompacted = errors.New("etcd has compacted what was to be watched")

// Entry is a key and its value at a revision.
type Entry struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"`
}

// Change is one key written or deleted.
type Change struct {
	Entry
	Deleted bool
}

type header struct {
	Revision int64 `json:"revision,string"`
}

// Put writes a key and returns the revision at which it did.
func (s *Store) Put(ctx context.Context, key string, value []byte) (int64, error) {
	var answer struct{ Header header }
	err := s.call(ctx, "kv/put", Object{"key": []byte(key), "value": value}, &answer)
	return answer.Header.Revision, err
}

// Delete deletes a key.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.call(ctx, "kv/deleterange", Object{"key": []byte(key)}, nil)
}

// List reads all keys under a prefix, as they are at one revision.
func (s *Store) List(ctx context.Context, prefix string) (revision int64, entries []Entry, err error) {
	var answer struct {
		Header header
		Kvs    []Entry
	}
	err = s.call(ctx, "kv/range", Object{"key": []byte(prefix), "range_end": prefixEnd(prefix)}, &answer)
	return answer.Header.Revision, answer.Kvs, err
}

// Compact forgets all history before now: whoever watches from an older revision is told that it is gone.
func (s *Store) Compact(ctx context.Context) error {
	revision, _, err := s.List(ctx, "/no-such-key")
	if err != nil {
		return err
	}
	return s.call(ctx, "kv/compaction", Object{"revision": revision, "physical": true}, nil)
}

// Watch tells of all changes under a prefix from a revision on, in their order. It ends with ctx, or when etcd does.
func (s *Store) Watch(ctx context.Context, prefix string, from int64, tell func(Change)) error {
	request := Object{"create_request": Object{"key": []byte(prefix), "range_end": prefixEnd(prefix), "start_revision": from}}
	body, err := s.open(ctx, "watch", request)
	if err != nil {
		return err
	}
	defer body.Close()
	decoder := json.NewDecoder(bufio.NewReaderSize(body, 1<<20))
	for {
		var message struct {
			Result struct {
				Canceled        bool
				CancelReason    string `json:"cancel_reason"`
				CompactRevision int64  `json:"compact_revision,string"`
				Events          []struct {
					Type string
					KV   Entry
				}
			}
			Error json.RawMessage
		}
		if err := decoder.Decode(&message); err != nil {
			return err
		}
		if message.Error != nil {
			return fmt.Errorf("etcd's watch: %s", message.Error)
		}
		if message.Result.Canceled {
			if compacted := message.Result.CompactRevision; compacted > 0 {
				return fmt.Errorf("%w (at %d)", ErrCompacted, compacted)
			}
			return fmt.Errorf("etcd's watch from revision %d: %s", from, message.Result.CancelReason)
		}
		for _, event := range message.Result.Events {
			tell(Change{Entry: event.KV, Deleted: event.Type == "DELETE"})
		}
	}
}

func (s *Store) call(ctx context.Context, method string, request Object, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body, err := s.open(ctx, method, request)
	if err != nil {
		return err
	}
	defer body.Close()
	if answer == nil {
		_, err = io.Copy(io.Discard, body)
		return err
	}
	return json.NewDecoder(body).Decode(answer)
}

func (s *Store) open(ctx context.Context, method string, request Object) (io.ReadCloser, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/"+method, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	response, err := s.http.Do(post)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		message, err := io.ReadAll(response.Body)
		return nil, errors.Join(fmt.Errorf("etcd, %s: %s: %s", method, response.Status, message), err)
	}
	return response.Body, nil
}

// prefixEnd is the first key after all that begin with a prefix. No prefix here ends in 0xff.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}
