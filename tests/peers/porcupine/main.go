// Checks histories of a lock with Porcupine: one JSON object per line on stdin, one line with the answer on stdout.
//
// ../README.md explains how a recorded history becomes these operations, and what the answers must agree with.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// An operation, linearizable somewhere in [Call, Return].
type operation struct {
	Kind    string `json:"kind"` // acquire, release or write; any other kind may have happened or not
	Owner   string `json:"owner"`
	Section int    `json:"section"`
	Token   int    `json:"token"`
	Value   int    `json:"value"`
	Reentry bool   `json:"reentry"` // an acquire that started exactly when its owner's previous section ended
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
}

type history struct {
	ID        int         `json:"id"`
	Model     string      `json:"model"` // mutex, fenced-mutex, fence or counter
	Ops       []operation `json:"ops"`
	TimeoutMs int         `json:"timeout_ms"`
}

// Who is inside, in which of its sections, and the largest token of any section that has ended.
type lockState struct {
	owner string
	open  string
	floor int
}

func enter(open string, section int) string {
	all := append(strings.Fields(open), strconv.Itoa(section))
	sort.Strings(all)
	return strings.Join(all, " ")
}

func leave(open string, section int) (string, bool) {
	var left []string
	found := false
	for _, name := range strings.Fields(open) {
		if name == strconv.Itoa(section) {
			found = true
		} else {
			left = append(left, name)
		}
	}
	return strings.Join(left, " "), found
}

// A mutex that knows its owner and, if it is fenced, grants tokens larger than those of all sections that have ended.
func mutex(fenced bool) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return lockState{floor: -1 << 62} },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			s, op := state.(lockState), input.(operation)
			switch op.Kind {
			case "acquire":
				if s.open != "" && !(op.Reentry && s.owner == op.Owner) {
					return false, s
				}
				if fenced && op.Token <= s.floor {
					return false, s
				}
				return true, lockState{op.Owner, enter(s.open, op.Section), s.floor}
			case "release":
				open, found := leave(s.open, op.Section)
				if !found || s.owner != op.Owner {
					return false, s
				}
				next := lockState{s.owner, open, s.floor}
				if open == "" {
					next.owner = ""
				}
				if op.Token > next.floor {
					next.floor = op.Token
				}
				return true, next
			}
			return true, s
		},
	}
}

// A store that accepts a write if its `number` is larger than that of every earlier write, or equal if that is allowed.
func growing(number func(operation) int, equalIsFine bool) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return -1 << 62 },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			largest, next := state.(int), number(input.(operation))
			return next > largest || (equalIsFine && next == largest), next
		},
	}
}

func main() {
	models := map[string]porcupine.Model{
		"mutex":        mutex(false),
		"fenced-mutex": mutex(true),
		"fence":        growing(func(op operation) int { return op.Token }, true),
		"counter":      growing(func(op operation) int { return op.Value }, false),
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var h history
		if err := decoder.Decode(&h); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		model, known := models[h.Model]
		if !known {
			fmt.Fprintf(os.Stderr, "there is no model %q\n", h.Model)
			os.Exit(1)
		}
		ops := make([]porcupine.Operation, len(h.Ops))
		for i, op := range h.Ops {
			ops[i] = porcupine.Operation{ClientId: 0, Input: op, Call: op.Call, Output: nil, Return: op.Return}
		}
		began := time.Now()
		result := porcupine.CheckOperationsTimeout(model, ops, time.Duration(h.TimeoutMs)*time.Millisecond)
		fmt.Fprintf(out, "{\"id\":%d,\"result\":%q,\"ns\":%d}\n", h.ID, result, time.Since(began).Nanoseconds())
		out.Flush()
	}
}
