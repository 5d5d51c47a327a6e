package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/freshet/freshet/internal/pki"
)

// Reach sees whether the node name answers at addr as Dial would want it to,
// up to the point where a job would be named. Its error leaves node and address out.
func (p *Port) Reach(ctx context.Context, addr, name string) error {
	if p.o.Credentials == nil {
		return errors.New("this process has no node's credentials")
	}
	raw, err := p.o.Dial(ctx, "tcp", addr)
	if err != nil {
		return withoutAddress(err)
	}
	defer raw.Close()
	t := tls.Client(raw, p.o.Credentials.ClientTLS(pki.Node, name, ProtocolData))
	if err := t.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("it takes connections and does not answer: %w", ctx.Err())
		}
		return p.o.Credentials.Explain(err)
	}
	return t.Close()
}
