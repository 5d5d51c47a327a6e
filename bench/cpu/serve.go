package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"
)

// serve is "cpu serve http|https ADDR DIR": a web server as one writes it in Go, which gives the files of DIR. HTTP/1.1, which
// takes the least for large files.
func serve(ctx context.Context, args []string) error {
	if len(args) != 3 || args[0] != "http" && args[0] != "https" {
		return fmt.Errorf("serve %q: want http or https, an address and a directory", args)
	}
	s := &http.Server{
		Addr: args[1], Handler: http.FileServer(http.Dir(args[2])), ReadHeaderTimeout: time.Minute,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	var err error
	if args[0] == "https" {
		cert, kerr := certificate()
		if kerr != nil {
			return kerr
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		err = s.ListenAndServeTLS("", "")
	} else {
		err = s.ListenAndServe()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// certificate is one that nobody trusts: what is measured is the encryption.
func certificate() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
