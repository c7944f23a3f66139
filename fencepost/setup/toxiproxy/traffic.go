package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2"
)

// What was read from everybody who dialled a proxy, by the proxy and the address that dialled. Upstream counts bytes, too,
// but only once a connection has closed.
var dialled sync.Map

type peer struct{ proxy, host string }

type counts struct{ pieces, bytes atomic.Int64 }

type counted struct {
	source io.Reader
	counts *counts
}

func init() {
	// Upstream's link.go asks for this (mends.json).
	toxiproxy.Counted = func(proxy, direction string, source io.Reader) io.Reader {
		dialler, isConnection := source.(net.Conn)
		if direction != "upstream" || !isConnection {
			return source
		}
		host, _, _ := net.SplitHostPort(dialler.RemoteAddr().String())
		known, _ := dialled.LoadOrStore(peer{proxy, host}, new(counts))
		return &counted{source, known.(*counts)}
	}
}

// Read counts a piece whatever a toxic makes of it then: it is what the client sent.
func (c *counted) Read(buffer []byte) (int, error) {
	length, err := c.source.Read(buffer)
	if length > 0 {
		c.counts.pieces.Add(1)
		c.counts.bytes.Add(int64(length))
	}
	return length, err
}

type entry struct {
	Proxy  string `json:"proxy"`
	From   string `json:"from"`
	Pieces int64  `json:"pieces"`
	Bytes  int64  `json:"bytes"`
}

// serveTraffic tells what was counted so far.
func serveTraffic(response http.ResponseWriter, _ *http.Request) {
	entries := []entry{}
	dialled.Range(func(key, value any) bool {
		who, what := key.(peer), value.(*counts)
		entries = append(entries, entry{who.proxy, who.host, what.pieces.Load(), what.bytes.Load()})
		return true
	})
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(entries)
}
