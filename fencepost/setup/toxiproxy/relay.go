package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// reachWithin is how long a server may take to be dialled and to accept the login.
const reachWithin = 5 * time.Second

// lent is a server that is not the run's own. TLS and the login end here: who dials the relay speaks plain RESP, and is
// logged in already.
type lent struct {
	Name       string   `json:"name"`
	Address    string   `json:"address"`
	TLS        bool     `json:"tls"`
	ServerName string   `json:"server_name"`
	CA         string   `json:"ca"`    // PEM; empty: the machine's own
	Login      []string `json:"login"` // the words of AUTH; empty: none
	config     *tls.Config
}

// relay is told of the servers over stdin, in one line, and ends with stdin. Each server's listening socket comes as an
// open descriptor over the Unix socket `control`, with the server's name: so the relay serves a network namespace that
// it is not in.
func relay(control string) error {
	told := bufio.NewReader(os.Stdin)
	line, err := told.ReadBytes('\n')
	if err != nil {
		return err
	}
	var servers []*lent
	if err := json.Unmarshal(line, &servers); err != nil {
		return err
	}
	byName := map[string]*lent{}
	for _, server := range servers {
		if err := server.prepare(); err != nil {
			return err
		}
		byName[server.Name] = server
	}
	syscall.Umask(0o177)
	listener, err := net.Listen("unix", control)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if err := adopt(connection.(*net.UnixConn), byName); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			connection.Close()
		}
	}()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, told)
	return err
}

func (s *lent) prepare() error {
	if !s.TLS {
		return nil
	}
	s.config = &tls.Config{ServerName: s.ServerName, MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		s.config.RootCAs = x509.NewCertPool()
		if !s.config.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return errors.New("there is no certificate in the file of --nodes-ca")
		}
	}
	return nil
}

// adopt takes one listening socket and serves it from then on. It answers with a byte once it does.
func adopt(connection *net.UnixConn, byName map[string]*lent) error {
	name, rights := make([]byte, 64), make([]byte, syscall.CmsgSpace(4))
	n, rightsLength, _, _, err := connection.ReadMsgUnix(name, rights)
	if err != nil {
		return err
	}
	server, known := byName[string(name[:n])]
	messages, err := syscall.ParseSocketControlMessage(rights[:rightsLength])
	if err != nil || len(messages) != 1 || !known {
		return fmt.Errorf("no socket of a known server came with %q", name[:n])
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(descriptors[0]), server.Name)
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return err
	}
	go server.serve(listener)
	_, err = connection.Write([]byte{1})
	return err
}

func (s *lent) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go s.join(client)
	}
}

// join carries bytes both ways until one of the two closes. A client whose server cannot be reached is hung up on.
func (s *lent) join(client net.Conn) {
	defer client.Close()
	node, err := s.dial()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339Nano), s.Name, err)
		return
	}
	defer node.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{node, client}, {client, node}} {
		go func() {
			io.Copy(way[0], way[1]) //nolint:errcheck // either end may go at any time
			done <- struct{}{}
		}()
	}
	<-done
}

func (s *lent) dial() (net.Conn, error) {
	node, err := net.DialTimeout("tcp", s.Address, reachWithin)
	if err != nil {
		return nil, err
	}
	if s.config != nil {
		node = tls.Client(node, s.config)
	}
	if err := s.logIn(node); err != nil {
		node.Close()
		return nil, err
	}
	return node, nil
}

// logIn reads no further than the reply: what comes next is the client's.
func (s *lent) logIn(node net.Conn) error {
	if len(s.Login) == 0 {
		return nil
	}
	node.SetDeadline(time.Now().Add(reachWithin)) //nolint:errcheck // of an open connection
	request := fmt.Sprintf("*%d\r\n$4\r\nAUTH\r\n", len(s.Login)+1)
	for _, word := range s.Login {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(node, request); err != nil {
		return err
	}
	var reply strings.Builder
	for character := make([]byte, 1); !strings.HasSuffix(reply.String(), "\r\n"); {
		if _, err := io.ReadFull(node, character); err != nil {
			return err
		}
		reply.Write(character)
	}
	node.SetDeadline(time.Time{}) //nolint:errcheck // of an open connection
	if reply.String() != "+OK\r\n" {
		return errors.New("the login was refused")
	}
	return nil
}
