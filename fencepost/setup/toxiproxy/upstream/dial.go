package toxiproxy

import (
	"context"
	"net"
	"time"
)

// dialWithin is how long a node may take to be dialled. One whose machine is gone answers nothing, and Linux would try
// for half a minute or more.
const dialWithin = time.Second

// dial reaches a node unless the proxy stops first: whoever stops it holds its lock and waits until nothing is dialled.
func dial(upstream string, stopped <-chan struct{}) (net.Conn, error) {
	within, end := context.WithTimeout(context.Background(), dialWithin)
	defer end()
	go func() {
		select {
		case <-stopped:
			end()
		case <-within.Done():
		}
	}()
	return (&net.Dialer{}).DialContext(within, "tcp", upstream)
}
