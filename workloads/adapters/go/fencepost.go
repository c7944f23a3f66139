// Package fencepost is the adapters' side of the lock protocol (docs/lock-protocol.md) in Go. It uses only the standard
// library.
//
// An adapter's main calls [Serve] with a function that opens its library. Every grant says until when it lasts, in the
// most exact of three ways that the library allows:
//
//   - [GrantedUntil]: the library returns a deadline, a [time.Time]. Nothing has to be estimated.
//   - [GrantedFor]: it returns a duration. The duration counts from the moment at which the library computed it.
//   - [Granted]: it returns yes and nothing else. The lease lasts for the TTL, from some moment within the call.
//
// # When was it computed?
//
// The judge needs bounds for that moment: if a validity counted from too late a time, the lock would be blamed for time
// that something else took. [Timed] takes a timestamp right before the call and one right after it, and these are the
// bounds. The first could be a later one if the time between computing and returning were known to be short. In other
// languages the kernel says so: a thread that neither waits nor sleeps is running or waiting for a processor, and the
// kernel counts both. That is not so in Go. A goroutine that was preempted waits in a queue of the Go scheduler, which no
// thread's account shows; [runtime.LockOSThread] does not change that; and the scheduler may find out up to 10 ms late
// that a thread is stuck in a system call and its queue has to move on. So the lower bound is the start of the call:
// wide, but true. To narrow it, make each call a single attempt, and repeat the library's own retries in the adapter.
package fencepost

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Lock is what an adapter implements. If several tasks share the lock (--tasks), each calls it from a goroutine of its own.
//
// A panic in a call is answered with `info`, because it is unknown how far the call got. A panic in a goroutine that the
// library started ends the process, and the run.
type Lock interface {
	Acquire(key string, ttl time.Duration) Answer
	Extend(key, value string, ttl time.Duration) Answer
	Release(key, value string) Answer
	// Describe returns what the report shows: the library's version, and the timeouts and retries that it uses.
	Describe() map[string]any
}

// Renewing is a Lock whose library renews its leases by itself (--renewal).
type Renewing interface {
	Lock
	// Held answers OK if the library says that the lease is still held, and Fail if it says that it is not.
	Held(key, value string) Answer
}

// Node is where the lock connects to a node. Password is empty if the node asks for none; the URL contains it, too.
type Node struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	URL      string `json:"url"`
	Password string `json:"password"`
}

// Addr returns host:port.
func (n Node) Addr() string { return fmt.Sprintf("%s:%d", n.Host, n.Port) }

// Settings are the harness's lock options, which an adapter may use or ignore, and the [settings] of the lock's manifest,
// undecoded. TTLMs: what every acquire will ask for. WaitMs: for how long an acquire may keep trying. Permits: how many a
// semaphore lets in. Tasks: how many share the lock. All: each of the settings as it came, by its name in the protocol.
type Settings struct {
	TTLMs         float64                    `json:"ttl_ms"`
	NodeTimeoutMs float64                    `json:"node_timeout_ms"`
	RetryDelayMs  float64                    `json:"retry_delay_ms"`
	WaitMs        float64                    `json:"wait_ms"`
	Permits       int                        `json:"permits"`
	Seed          uint64                     `json:"seed"`
	Tasks         int                        `json:"tasks"`
	RenewalMs     *float64                   `json:"renewal_ms"`
	Manifest      json.RawMessage            `json:"manifest"`
	All           map[string]json.RawMessage `json:"-"`
}

// UnmarshalJSON also fills in All.
func (s *Settings) UnmarshalJSON(text []byte) error {
	type named Settings
	if err := json.Unmarshal(text, (*named)(s)); err != nil {
		return err
	}
	return json.Unmarshal(text, &s.All)
}

// TTL is the lease time that every acquire will ask for, for a library that has it as a setting.
func (s Settings) TTL() time.Duration { return milliseconds(s.TTLMs) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// exitGrace is how long calls that are under way when stdin ends may still take.
const exitGrace = time.Second

type request struct {
	Do       string   `json:"do"`
	Task     int      `json:"task"`
	Nodes    []Node   `json:"nodes"`
	Settings Settings `json:"settings"`
	Key      string   `json:"key"`
	TTLMs    float64  `json:"ttl_ms"`
	Value    string   `json:"value"`
	Bytes    []byte   `json:"value_base64"`
}

// Serve answers requests until stdin ends, and then ends the process: goroutines in which a library still waits for a
// hung node must not keep it alive. What the library writes on stdout goes to stderr.
func Serve(open func(nodes []Node, settings Settings) (Lock, error)) {
	answers := divertStdout()
	requests := make(chan []byte)
	go readLines(requests)
	var lock Lock
	respond := func(asked request) {
		encoded, err := json.Marshal(answer(asked, &lock, open))
		if err != nil {
			panic(err)
		}
		if _, err := answers.Write(append(encoded, '\n')); err != nil {
			os.Exit(0) // nobody reads any more
		}
	}
	var underWay sync.WaitGroup
	for line := range requests {
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(fmt.Sprintf("a request is not understood: %v: %s", err, line))
		}
		if asked.Bytes != nil {
			asked.Value = string(asked.Bytes)
		}
		if asked.Task == 0 {
			respond(asked)
		} else {
			underWay.Add(1)
			go func() {
				defer underWay.Done()
				respond(asked)
			}()
		}
		if asked.Do == "close" {
			os.Exit(0)
		}
	}
	underWay.Wait()
	os.Exit(0)
}

func answer(asked request, lock *Lock, open func([]Node, Settings) (Lock, error)) (answer Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Fprintf(os.Stderr, "the call panicked: %v\n%s", reason, debug.Stack())
			answer = Info(fmt.Sprintf("panic: %v", reason))
			if asked.Do == "open" {
				answer.Outcome = "fail"
			}
		}
		answer.Task = asked.Task
	}()
	ttl := milliseconds(asked.TTLMs)
	switch asked.Do {
	case "open":
		opened, err := open(asked.Nodes, asked.Settings)
		if err != nil {
			return Fail(err)
		}
		if _, renews := opened.(Renewing); asked.Settings.RenewalMs != nil && !renews {
			return Fail("this adapter cannot say whether a lock is still held (--renewal)")
		}
		*lock = opened
		answer = OK()
		answer.Describe = opened.Describe()
		return answer
	case "acquire":
		return (*lock).Acquire(asked.Key, ttl)
	case "extend":
		return (*lock).Extend(asked.Key, asked.Value, ttl)
	case "release":
		return (*lock).Release(asked.Key, asked.Value)
	case "held":
		return (*lock).(Renewing).Held(asked.Key, asked.Value)
	case "close":
		return OK()
	}
	return Fail("this adapter does not support " + asked.Do)
}

// divertStdout sends whatever is printed to stderr, and returns the only way to the real stdout.
func divertStdout() *os.File {
	real, err := syscall.Dup(1)
	if err != nil {
		panic(err)
	}
	syscall.CloseOnExec(real)
	if err := syscall.Dup3(2, 1, 0); err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(real), "answers")
}

func readLines(lines chan<- []byte) {
	reader := bufio.NewReader(os.Stdin)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			close(lines)
			time.Sleep(exitGrace)
			os.Exit(0)
		}
		lines <- line
	}
}

// Now returns CLOCK_MONOTONIC in nanoseconds, which all processes of a host share. A time.Time has a reading of the same
// clock, but counts from the start of the process and cannot be exported.
func Now() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, failed := syscall.RawSyscall(
		syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		panic(failed)
	}
	return now.Nano()
}

// monotonic converts a deadline to CLOCK_MONOTONIC, rounding to the earlier side. A time.Time made by adding to
// time.Now() counts by the monotonic clock. One that has lost that reading (by Round, UTC, or a store) counts by the wall
// clock, as it does for everybody who compares it with time.Now().
func monotonic(deadline time.Time) int64 {
	// The two clocks cannot be read at once. Of several tries the one with the shortest gap between them is best.
	var best, gap int64
	for try := 0; try < 8; try++ {
		before := Now()
		left := time.Until(deadline)
		if took := Now() - before; try == 0 || took < gap {
			best, gap = before+int64(left), took
		}
	}
	return best
}

// Call is when a call of the library began and ended, in nanoseconds of CLOCK_MONOTONIC.
type Call struct{ BeganNs, EndedNs int64 }

// Timed runs a call of the library.
func Timed(call func()) Call {
	began := Now()
	call()
	return Call{began, Now()}
}

// Answer is one answer of the protocol; the fields are described there. Make it with the functions below, and set what
// else the library shows: `answer.Token = &token`. A value is any string of bytes.
type Answer struct {
	Outcome          string         `json:"outcome"`
	Task             int            `json:"task,omitempty"`
	Error            string         `json:"error,omitempty"`
	Describe         map[string]any `json:"describe,omitempty"`
	Value            *string        `json:"value,omitempty"`
	ValueBase64      []byte         `json:"value_base64,omitempty"`
	ValidityMs       *float64       `json:"validity_ms,omitempty"`
	GrantedMs        *float64       `json:"granted_ms,omitempty"`
	DeadlineNs       *int64         `json:"deadline_ns,omitempty"`
	ComputedAfterNs  *int64         `json:"computed_after_ns,omitempty"`
	ComputedBeforeNs *int64         `json:"computed_before_ns,omitempty"`
	RequestedNs      *int64         `json:"requested_ns,omitempty"`
	Token            *int64         `json:"token,omitempty"`
}

// OK answers a release.
func OK() Answer { return Answer{Outcome: "ok"} }

// GrantedUntil answers an acquire or an extension with a deadline.
func GrantedUntil(value string, deadline time.Time) Answer {
	ns := monotonic(deadline)
	answer := granted(value)
	answer.DeadlineNs = &ns
	return answer
}

// GrantedFor answers an acquire or an extension with a validity that was computed within the call.
func GrantedFor(value string, validity time.Duration, call Call) Answer {
	answer := Granted(value, call)
	ms := float64(validity) / float64(time.Millisecond)
	answer.ValidityMs = &ms
	return answer
}

// Granted answers an acquire or an extension for a library that says yes and nothing else.
func Granted(value string, call Call) Answer {
	answer := granted(value)
	answer.ComputedAfterNs, answer.ComputedBeforeNs = &call.BeganNs, &call.EndedNs
	return answer
}

func granted(value string) Answer {
	answer := OK()
	answer.Value, answer.ValueBase64 = textOrBytes(value)
	return answer
}

// textOrBytes returns a value as what JSON can carry: text, or bytes for base64.
func textOrBytes(value string) (*string, []byte) {
	if utf8.ValidString(value) {
		return &value, nil
	}
	return nil, []byte(value)
}

// Fail answers that it certainly did not happen. The error may be nil.
func Fail(err any) Answer { return Answer{Outcome: "fail", Error: oneLine(err)} }

// Info answers that nobody can know whether it happened.
func Info(err any) Answer { return Answer{Outcome: "info", Error: oneLine(err)} }

// Version returns the version of a module that the adapter was built with; empty if it was built without.
func Version(module string) string {
	if build, known := debug.ReadBuildInfo(); known {
		for _, each := range build.Deps {
			if each.Path == module {
				return each.Version
			}
		}
	}
	return ""
}

func oneLine(err any) string {
	if err == nil {
		return ""
	}
	text := []rune(strings.Join(strings.Fields(fmt.Sprint(err)), " "))
	return string(text[:min(len(text), 500)])
}
