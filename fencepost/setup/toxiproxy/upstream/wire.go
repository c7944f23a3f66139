package toxiproxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// What went over the links is recorded in two files, which only grow: `wire.events`, records of one size, and
// `wire.bytes`, what the records that carry bytes carry, in the same order. Each is written by one write(2) when it
// happens, bytes before their record, so a SIGKILL costs at most the record under way. The format is read by
// cluster/wire.py.
const (
	eventOpened        = iota // its bytes: the name of the link, a space, the host that dialled
	eventFromClient           // bytes that a client sent have arrived here
	eventToNode               // as many bytes as `length` are about to be sent on
	eventFromNode             // bytes that a node sent have arrived here
	eventToClient             // as many bytes as `length` are about to be sent on
	eventNotToNode            // of the bytes that were to be sent on last, so many were not
	eventNotToClient          // the same towards the client
	eventClientClosed         // the client closed the connection, or nothing can come from it any more
	eventNodeClosed           // the same of the node
	eventUnreached            // the node took no connection; the same bytes
	eventLimitReached         // nothing more is recorded
)

const (
	eventBytes     = 20
	clockMonotonic = 1
)

// Wire is the record of this process. Nothing is recorded before Begin.
var Wire WireRecord

// WireRecord stamps and writes under one lock, so that its records are in the order of their times.
type WireRecord struct {
	guard         sync.Mutex
	events, bytes *os.File
	left          int64 // how many bytes may still be written
	secrets       [][]byte
	numbers       map[string]uint32 // of the connections of which one direction is open
	last          uint32
	record        [eventBytes]byte
}

// begin is what Begin is told: how large the record may become, and what must never be in it.
type begin struct {
	Limit   int64    `json:"limit_bytes"`
	Secrets []string `json:"secrets"`
}

// Begin answers the request with which recording begins, in the folder FENCEPOST_WIRE.
func (w *WireRecord) Begin(response http.ResponseWriter, request *http.Request) {
	var told begin
	if err := json.NewDecoder(request.Body).Decode(&told); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	for name, file := range map[string]**os.File{"wire.events": &w.events, "wire.bytes": &w.bytes} {
		made, err := os.OpenFile(filepath.Join(os.Getenv("FENCEPOST_WIRE"), name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
		*file = made
	}
	w.left, w.numbers = told.Limit, map[string]uint32{}
	for _, secret := range told.Secrets {
		w.secrets = append(w.secrets, []byte(secret))
	}
	response.WriteHeader(http.StatusNoContent)
}

// wireEnd is one direction of one connection. Nil records nothing.
type wireEnd struct {
	wire       *WireRecord
	connection uint32
	upstream   bool
}

// opened is called for each direction of a connection, upstream first.
func (w *WireRecord) opened(link *ToxicLink, name string) *wireEnd {
	w.guard.Lock()
	defer w.guard.Unlock()
	if w.events == nil {
		return nil
	}
	upstream := link.direction == stream.Upstream
	dialler := strings.TrimSuffix(strings.TrimSuffix(name, "upstream"), "downstream")
	key := link.proxy.Name + " " + dialler
	if upstream {
		w.last++
		w.numbers[key] = w.last
		w.write(eventOpened, w.last, 0, ends(link.proxy, dialler))
	}
	number := w.numbers[key]
	if !upstream {
		delete(w.numbers, key)
	}
	return &wireEnd{w, number, upstream}
}

// unreached records that the node of this proxy took no connection.
func (w *WireRecord) unreached(proxy *Proxy, client net.Conn) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.last++
	w.write(eventUnreached, w.last, 0, ends(proxy, client.RemoteAddr().String()))
}

// ends names the two ends of a connection: the link, and the host that dialled.
func ends(proxy *Proxy, dialler string) []byte {
	host, _, _ := net.SplitHostPort(dialler)
	return []byte(proxy.Name + " " + host)
}

// write needs the lock. A record that cannot be written ends the process: a run whose evidence is lost must not go on.
func (w *WireRecord) write(kind uint32, connection uint32, length int, carried []byte) {
	if w.events == nil {
		return
	}
	if w.left -= int64(eventBytes + len(carried)); w.left < 0 {
		kind, length, carried = eventLimitReached, 0, nil
	}
	for _, secret := range w.secrets {
		if bytes.Contains(carried, secret) {
			carried = bytes.ReplaceAll(carried, secret, bytes.Repeat([]byte("*"), len(secret)))
		}
	}
	if len(carried) > 0 {
		length = len(carried)
		w.append(w.bytes, carried)
	}
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0) //nolint:errcheck // cannot fail
	binary.LittleEndian.PutUint64(w.record[0:], uint64(now.Nano()))
	binary.LittleEndian.PutUint32(w.record[8:], connection)
	binary.LittleEndian.PutUint32(w.record[12:], uint32(length))
	binary.LittleEndian.PutUint32(w.record[16:], kind)
	w.append(w.events, w.record[:])
	if kind == eventLimitReached {
		w.events = nil
	}
}

func (w *WireRecord) append(file *os.File, what []byte) {
	if _, err := file.Write(what); err != nil {
		fmt.Fprintf(os.Stderr, "what goes over the links cannot be recorded: %s\n", err)
		os.Exit(1)
	}
}

func (w *WireRecord) note(kind uint32, connection uint32, length int, carried []byte) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.write(kind, connection, length, carried)
}

// source returns what reads like `source`, and records it.
func (e *wireEnd) source(source io.Reader) io.Reader {
	if e == nil {
		return source
	}
	return &recordedReader{e, source}
}

// dest returns what writes like `dest`, and records it.
func (e *wireEnd) dest(dest io.WriteCloser) io.WriteCloser {
	if e == nil {
		return dest
	}
	return &recordedWriter{e, dest}
}

type recordedReader struct {
	end  *wireEnd
	from io.Reader
}

func (r *recordedReader) Read(into []byte) (int, error) {
	n, err := r.from.Read(into)
	arrived, closed := uint32(eventFromNode), uint32(eventNodeClosed)
	if r.end.upstream {
		arrived, closed = eventFromClient, eventClientClosed
	}
	if n > 0 {
		r.end.wire.note(arrived, r.end.connection, n, into[:n])
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // closed by the proxy itself, which is not their doing
		r.end.wire.note(closed, r.end.connection, 0, nil)
	}
	return n, err
}

type recordedWriter struct {
	end *wireEnd
	to  io.WriteCloser
}

func (w *recordedWriter) Write(what []byte) (int, error) {
	sent, missed := uint32(eventToClient), uint32(eventNotToClient)
	if w.end.upstream {
		sent, missed = eventToNode, eventNotToNode
	}
	w.end.wire.note(sent, w.end.connection, len(what), nil)
	n, err := w.to.Write(what)
	if n < len(what) {
		w.end.wire.note(missed, w.end.connection, len(what)-n, nil)
	}
	return n, err
}

func (w *recordedWriter) Close() error {
	return w.to.Close()
}
