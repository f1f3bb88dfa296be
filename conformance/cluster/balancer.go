package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Replica is one of several processes that do the same behind one address.
type Replica struct {
	// Address is where it serves, HOST:PORT.
	Address string
	// Health is the URL under which it answers /readyz.
	Health string
}

// Balancer stands for a Service: each new connection goes to one of the replicas that are ready, in turn, and stays there. Like a Service it
// knows nothing of what is said on it, and does not try another replica when one can't be reached.
type Balancer struct {
	// Port of loopback.
	Port string

	listener net.Listener
	cancel   context.CancelFunc

	mutex    sync.Mutex
	replicas []rotated
	next     int
}

type rotated struct {
	Replica
	ready bool
	// left is when it was last taken out.
	left time.Time
}

// probing is how often replicas are asked whether they are ready. A cluster learns as soon of a pod that is told to end, or has ended.
const probing = 500 * time.Millisecond

// NewBalancer listens; Lead gives it replicas.
func NewBalancer() (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return &Balancer{Port: port, listener: listener, cancel: func() {}}, err
}

// Lead leads connections to these replicas until Stop, or until ctx ends.
func (b *Balancer) Lead(ctx context.Context, replicas ...Replica) {
	ctx, b.cancel = context.WithCancel(ctx)
	for _, replica := range replicas {
		b.replicas = append(b.replicas, rotated{Replica: replica})
	}
	context.AfterFunc(ctx, func() { _ = b.listener.Close() })
	for i := range replicas {
		go b.probe(ctx, i)
	}
	go func() {
		for {
			connection, err := b.listener.Accept()
			if err != nil {
				return
			}
			go b.carry(connection)
		}
	}()
}

// Stop ends it.
func (b *Balancer) Stop() {
	b.cancel()
	_ = b.listener.Close()
}

// WaitReady waits until all replicas are in rotation.
func (b *Balancer) WaitReady(ctx context.Context) error {
	return Poll(ctx, "all replicas to be ready", time.Minute, 100*time.Millisecond, func(context.Context) error {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		for _, replica := range b.replicas {
			if !replica.ready {
				return fmt.Errorf("%s/readyz does not say ok", replica.Health)
			}
		}
		return nil
	})
}

// WaitLeft waits until a replica is out of rotation.
func (b *Balancer) WaitLeft(ctx context.Context, replica int) error {
	return Poll(ctx, "a replica to be out of rotation", 10*time.Second, 10*time.Millisecond, func(context.Context) error {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if b.replicas[replica].ready {
			return fmt.Errorf("%s is in it", b.replicas[replica].Address)
		}
		return nil
	})
}

// Left is when a replica was last taken out of rotation.
func (b *Balancer) Left(replica int) time.Time {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.replicas[replica].left
}

func (b *Balancer) probe(ctx context.Context, replica int) {
	client := Plain(b.replicas[replica].Health)
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		b.set(replica, client.ready(asked) == nil)
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(probing):
		}
	}
	client.http.CloseIdleConnections()
}

func (b *Balancer) set(replica int, ready bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	r := &b.replicas[replica]
	if r.ready && !ready {
		r.left = time.Now()
	}
	r.ready = ready
}

func (b *Balancer) pick() (int, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for range b.replicas {
		b.next = (b.next + 1) % len(b.replicas)
		if b.replicas[b.next].ready {
			return b.next, true
		}
	}
	return 0, false
}

func (b *Balancer) carry(from net.Conn) {
	defer from.Close()
	replica, found := b.pick()
	if !found {
		return
	}
	to, err := net.Dial("tcp", b.replicas[replica].Address)
	if err != nil {
		// Nobody is there: what ended without a word is noticed before the next probe.
		b.set(replica, false)
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			_ = way[1].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}
