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
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// What went over the links is recorded in two streams: `wire.events`, records of one size, and `wire.bytes`, what the
// records that carry bytes carry, in the same order. Both files only grow. What is younger than a moment is in
// `wire.tail`, which is mapped into memory: bytes are there before their record, and both as soon as they happen, so a
// SIGKILL costs at most the record under way, and hardly any record costs a system call. The format is read by
// harness/store/wire_files.py.
const (
	eventOpened       = iota // its bytes: the link's name, from where it was dialled (host:port), and the port from which the node was dialled
	eventFromClient          // bytes that a client sent have arrived here
	eventToNode              // as many bytes as `length` are about to be sent on
	eventFromNode            // bytes that a node sent have arrived here
	eventToClient            // as many bytes as `length` are about to be sent on
	eventNotToNode           // of the bytes that were to be sent on last, so many were not
	eventNotToClient         // the same towards the client
	eventClientClosed        // the client closed the connection, or nothing can come from it any more
	eventNodeClosed          // the same of the node
	eventUnreached           // the node took no connection; the same bytes, without a port
	eventCut                 // the proxy closed its connection to the client
	eventLimitReached        // nothing more is recorded
)

const (
	eventBytes     = 20
	clockMonotonic = 1
	tailHead       = 4096      // four numbers: where the tail of the events begins in its stream, its length; the same of the bytes
	tailEvents     = 20 * 3200 // the most bytes of the tail of the events, which begins behind the head
	tailBytes      = 1 << 18   // the same of the bytes, behind the events
	flushEvery     = 100 * time.Millisecond
	mostAhead      = 64 // arrivals that were read before anything took them
)

// Wire is the record of this process. Nothing is recorded before Begin.
var Wire WireRecord

// WireRecord stamps and writes under one lock, so that its records are in the order of their times.
type WireRecord struct {
	guard         sync.Mutex
	events, bytes *recordFile
	left          int64 // how many bytes may still be written
	secrets       [][]byte
	numbers       map[string]uint32 // of the connections of which one direction is open
	last          uint32
	record        [eventBytes]byte
}

// began is a moment on Go's clock, and beganNs the same moment on CLOCK_MONOTONIC. Go reads the clock without a system
// call, but does not tell what it read.
var (
	began   = time.Now()
	beganNs = calibrated()
)

func calibrated() (offset int64) {
	least := time.Hour
	for range 100 {
		var at syscall.Timespec
		before := time.Since(began)
		syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0) //nolint:errcheck // cannot fail
		after := time.Since(began)
		if after-before < least {
			least, offset = after-before, at.Nano()-int64(before+after)/2
		}
	}
	return offset
}

// recordFile is one of the two streams: the file, and the tail that is not in it yet.
type recordFile struct {
	file           *os.File
	offset, length *uint64 // of the tail, in the mapped head
	tail           []byte
}

// append puts this at the end of the stream.
func (f *recordFile) append(what []byte) {
	if int(*f.length)+len(what) > len(f.tail) {
		f.flush()
	}
	if len(what) > len(f.tail) {
		f.grow(what)
		return
	}
	copy(f.tail[*f.length:], what)
	atomic.StoreUint64(f.length, *f.length+uint64(len(what)))
}

// flush moves the tail into the file. Until both numbers are right again, the file has all that the tail has.
func (f *recordFile) flush() {
	if *f.length > 0 {
		f.grow(f.tail[:*f.length])
	}
}

func (f *recordFile) grow(what []byte) {
	if _, err := f.file.Write(what); err != nil {
		fmt.Fprintf(os.Stderr, "what goes over the links cannot be recorded: %s\n", err)
		os.Exit(1)
	}
	// In this order: what the tail has, the file has too, so a tail that begins too early or is too short is harmless.
	atomic.StoreUint64(f.length, 0)
	atomic.StoreUint64(f.offset, *f.offset+uint64(len(what)))
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
	if err := w.open(os.Getenv("FENCEPOST_WIRE")); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		http.Error(response, err.Error(), http.StatusInsufficientStorage)
		return
	} else if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	w.left, w.numbers = told.Limit, map[string]uint32{}
	for _, secret := range told.Secrets {
		w.secrets = append(w.secrets, []byte(secret))
	}
	go w.flushNowAndThen()
	response.WriteHeader(http.StatusNoContent)
}

// open makes the files. The tail is written once, so that the disk has room for it.
func (w *WireRecord) open(folder string) error {
	var files [3]*os.File
	for number, name := range []string{"wire.events", "wire.bytes", "wire.tail"} {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		files[number] = file
	}
	size := tailHead + tailEvents + tailBytes
	if _, err := files[2].Write(make([]byte, size)); err != nil {
		return err
	}
	tail, err := syscall.Mmap(int(files[2].Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	head := (*[4]uint64)(unsafe.Pointer(&tail[0]))
	w.events = &recordFile{files[0], &head[0], &head[1], tail[tailHead : tailHead+tailEvents]}
	w.bytes = &recordFile{files[1], &head[2], &head[3], tail[tailHead+tailEvents:]}
	return nil
}

// flushNowAndThen keeps the tail short, because only the files are sealed while a run is on.
func (w *WireRecord) flushNowAndThen() {
	for range time.Tick(flushEvery) {
		w.guard.Lock()
		if w.events == nil {
			w.guard.Unlock()
			return
		}
		w.flush()
		w.guard.Unlock()
	}
}

// flush needs the lock. Bytes come before their records here, too.
func (w *WireRecord) flush() {
	w.bytes.flush()
	w.events.flush()
}

// wireEnd is one direction of one connection. Nil records nothing.
type wireEnd struct {
	wire       *WireRecord
	connection uint32
	upstream   bool
}

// opened is called for each direction of a connection, upstream first.
func (w *WireRecord) opened(link *ToxicLink, name string, dest io.WriteCloser) *wireEnd {
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
		names := ends(link.proxy, dialler)
		if node, ok := dest.(net.Conn); ok {
			_, port, _ := net.SplitHostPort(node.LocalAddr().String())
			names = append(names, " "+port...)
		}
		w.write(eventOpened, w.last, 0, names)
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

// ends names the two ends of a connection: the link, and from where it was dialled.
func ends(proxy *Proxy, dialler string) []byte {
	return []byte(proxy.Name + " " + dialler)
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
		w.bytes.append(carried)
	}
	binary.LittleEndian.PutUint64(w.record[0:], uint64(beganNs+int64(time.Since(began))))
	binary.LittleEndian.PutUint32(w.record[8:], connection)
	binary.LittleEndian.PutUint32(w.record[12:], uint32(length))
	binary.LittleEndian.PutUint32(w.record[16:], kind)
	w.events.append(w.record[:])
	if kind == eventLimitReached {
		w.flush()
		w.events = nil
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
	reader := &recordedReader{e, source}
	if !e.upstream {
		return reader
	}
	return readAhead(reader)
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
	if err != nil && !errors.Is(err, net.ErrClosed) {
		r.end.wire.note(closed, r.end.connection, 0, nil)
	} else if err != nil && r.end.upstream { // closed by the proxy itself, which is not the client's doing
		r.end.wire.note(eventCut, r.end.connection, 0, nil)
	}
	return n, err
}

// readAhead returns what reads like `source`, which is read as soon as something arrives. A toxic that holds bytes back
// stops their reader, too; without this, what a client sent meanwhile would be stamped when the toxic lets go.
func readAhead(source io.Reader) io.Reader {
	ahead := make(chan arrival, mostAhead)
	go func() {
		buffer := make([]byte, 1<<15)
		for {
			n, err := source.Read(buffer)
			ahead <- arrival{bytes.Clone(buffer[:n]), err}
			if err != nil {
				return
			}
		}
	}()
	return &aheadReader{ahead: ahead}
}

// arrival is what one read returned.
type arrival struct {
	bytes []byte
	err   error
}

type aheadReader struct {
	ahead <-chan arrival
	next  arrival
}

func (r *aheadReader) Read(into []byte) (int, error) {
	if len(r.next.bytes) == 0 && r.next.err == nil {
		r.next = <-r.ahead
	}
	n := copy(into, r.next.bytes)
	r.next.bytes = r.next.bytes[n:]
	if len(r.next.bytes) > 0 {
		return n, nil
	}
	return n, r.next.err
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
	if !w.end.upstream {
		w.end.wire.note(eventCut, w.end.connection, 0, nil)
	}
	return w.to.Close()
}
