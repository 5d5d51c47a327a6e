package scenario

import (
	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/steal"
)

// event is what a timer brings.
type event struct {
	kind       kind
	most       int32 // works that are asked for
	node, peer int32 // whom it concerns; the local rank of who sent it, or whatever the kind says
	req        exchange.Request
	pace       steal.Pace // of who asks for works
	pieces     []int32
	hands      []steal.Hand
	claims     []steal.Claim
}

type kind uint8

const (
	evHave        kind = iota // node has pieces; wave number peer hears of it
	evRequest                 // req, of local rank peer, at node
	evCancel                  // likewise
	evChoke                   // local rank peer serves node no longer
	evUnchoke                 // or does from now on
	evGiveWork                // asked of node by node peer
	evWorks                   // the answer of node peer: hands
	evTook                    // claims, at node
	evRumour                  // all hear that node's group holds pieces, and claims
	evGather                  // claims that were gathered begin to go round
	evTell                    // node is to announce
	evTick                    // node is to look whom it serves
	evYield                   // node is to look who is ahead
	evFeel                    // node is to look at how fast it reads from the store
	evGiveUp                  // node has waited for the answer to its giveWork number peer
	evRead                    // the first byte of what node's connection peer reads has come
	evTurn                    // node is to look whether it is its turn to read
	evDo                      // number node of the scenario's events
	evSilent                  // node has been stopped for long, if it is its stop number peer
	evDead                    // all others give node up, unless it is back
	evHungry                  // node is to look for more to import
	evGiveImports             // asked of node by node peer
	evImports                 // the answer of node peer: hands
	evTookImports             // claims, at node
)

// own says whether an event is a node's own, and not of a connection: it comes also when that is lost.
func (k kind) own() bool {
	switch k {
	case evRead, evTell, evTick, evYield, evHungry, evTurn, evFeel:
		return true
	}
	return false
}
