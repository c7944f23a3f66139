// Etcd as its own module ships it, so that set-up can build it: `go install` refuses a module with replacements.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
