// The Toxiproxy of fencepost: upstream's own server, whose HTTP interface listens on a Unix socket instead of a TCP
// port. Toxiproxy asks nobody for a password, so everybody who can dial its port commands it; a socket that only its
// owner can open keeps all other users of the machine out.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const upstream = "github.com/Shopify/toxiproxy/v2"

func main() {
	socket := flag.String("socket", "toxiproxy.sock", "where the HTTP interface listens; the file must not exist yet")
	version := flag.Bool("version", false, "print the version of Toxiproxy and end")
	control := flag.String("relay", "", "instead: relay to the servers that stdin names; the Unix socket for their listeners")
	flag.Parse()
	toxiproxy.Version = upstreamVersion()
	if *version {
		fmt.Printf("fencepost-toxiproxy version %s\n", toxiproxy.Version)
		return
	}
	err := error(nil)
	if *control != "" {
		err = relay(*control)
	} else {
		err = serve(*socket)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve never returns without an error.
func serve(socket string) error {
	// The other half is for servers and clients, which share the machine. Bytes that are handed from a reader to a writer
	// on the same processor also wake nobody up: on two processors this costs a fifth less.
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	syscall.Umask(0o177) // the socket comes into being with mode 0600, so there is no moment at which others could dial
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	logger := zerolog.New(os.Stderr).Level(zerolog.ErrorLevel).With().Timestamp().Logger()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), logger)
	routes := server.Routes()
	routes.HandleFunc("/wire", toxiproxy.Wire.Begin).Methods("POST").Name("Wire")
	return http.Serve(listener, routes) // #nosec G114 -- only our own harness can connect
}

// upstreamVersion is the version of the module that this was built with.
func upstreamVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == upstream {
				return module.Version[len("v"):]
			}
		}
	}
	return "unknown"
}
