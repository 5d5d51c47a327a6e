package exchange

import (
	"slices"
	"time"
)

// This file works out which pieces a site imports now, and from which other one.

const (
	queueEvery = 50 * time.Millisecond // that it is worked out what is imported now
	queueEach  = 100 * time.Nanosecond // but so much later for each piece of each site, so that no more than a tenth of the time goes into it
	stays      = 2 * time.Second       // what has been chosen to be imported, whatever else there is by then
)

// begins says whether piece i is one of those that are imported now.
func (x *site) begins(i int) bool { return x.begin == nil || x.begin[i] }

// queue works out which pieces are to be imported now: as many from each of the other sites, as far as it has any (origins). If many were, all would be
// here late, at the same time, and the nodes of the site would have nothing to exchange until then; were they the foremost pieces they would be one site's, and all would
// wait for what leads out of it. What was chosen stays for a while. Each site goes through all in an order of its own (order), and what only one has is dealt out:
//
//	sites      0  1  2  0  1  2  0  1  2  …   who is to import first what only site 3 has (first)
//	forwards      1 ────── 1 ────── 1 ──>     site 1 takes those, and what several have
//	backwards  0 <── 2  0 <── 2  0 <── 2      and then the others', against their order
//
// O(pieces × sites), some times a second, less often if that is much.
func (s *State) queue(now time.Time) {
	x := s.site
	if x.begin == nil || now.Sub(x.looked) < max(queueEvery, queueEach*time.Duration(s.have.Len()*len(x.has))) {
		return
	}
	x.looked = now
	from := s.origins()
	n, sites, ours := s.have.Len(), len(x.has), s.Sites[s.Self]
	begin, left := make([]bool, n), s.AtOnce
	if s.Few && !x.lopsided() { // so few nodes do not want many, and not all the same site's
		left = n
	}
	many := make([]int, sites+1) // by site: pieces of those that may be begun
	for i, is := range x.begin {
		if is && from[i].site >= 0 && now.Sub(x.since[i]) < stays {
			begin[i] = true
			many[from[i].site]++
			left--
		}
	}
	come := make([]int, sites+1) // by site: how far we have gone through its pieces, forwards and then backwards
	for ; left > 0; left-- {
		best, piece := -1, 0
		for k := 1; k <= sites; k++ {
			site := (ours + k) % (sites + 1)
			for ; site != ours && come[site] < 2*n; come[site]++ {
				at, first := come[site], come[site] < n
				if !first {
					at = 2*n - 1 - at
				}
				i := x.order(at, ours, n)
				if begin[i] || int(from[i].site) != site || first && from[i].only && !x.first(at, site, ours, n) {
					continue
				}
				if best < 0 || many[site] < many[best] {
					best, piece = site, i
				}
				break
			}
		}
		if best < 0 {
			break
		}
		begin[piece], x.since[piece] = true, now
		many[best]++
	}
	x.begin = begin
	for rank := range s.peers {
		if !s.near(rank) {
			s.peers[rank].dry = false
		}
	}
}

// origin is the site that a piece is best imported from, -1 if it is not to be imported.
type origin struct {
	site int32
	only bool // no other has it
}

// origins finds the sites that pieces are imported from: of those that have a piece, the one that alone has the fewest. It counts these
// anew in x.alone, which lopsided and easier go by until the next time.
func (s *State) origins() []origin {
	x := s.site
	of := make([]origin, s.have.Len())
	clear(x.alone)
	for i := range of {
		of[i].site = -1
		if !s.foreign(i) {
			continue
		}
		of[i] = origin{int32(len(x.has)), true}
		for k := range x.has {
			if k != s.Sites[s.Self] && x.has[k].Has(i) {
				if int(of[i].site) < len(x.has) {
					of[i].only = false
					break
				}
				of[i].site = int32(k)
			}
		}
		if of[i].only {
			x.alone[of[i].site]++
		}
	}
	for i := range of {
		for k := range x.has {
			if of[i].site >= 0 && !of[i].only && k != s.Sites[s.Self] && x.has[k].Has(i) && x.alone[k] < x.alone[of[i].site] {
				of[i].site = int32(k)
			}
		}
	}
	return of
}

// lopsided says whether one of the other sites alone has most of what only one has: all want that.
func (x *site) lopsided() bool {
	most, all := 0, 0
	for _, k := range x.alone {
		most, all = max(most, k), all+k
	}
	return 3*most > 2*all
}

// first says whether the piece that we come to as number at, which only one site has, is ours to import before the others do: they
// are dealt out in turn.
func (x *site) first(at, from, ours, n int) bool {
	if from == len(x.has) || len(x.has) < 3 {
		return true
	}
	turn := (at + ours*n/len(x.has)) % n % (len(x.has) - 1)
	if turn >= from {
		turn++
	}
	return turn == ours
}

// order is the piece that a site comes to as number at of n. Those that follow each other lie far apart, wherever it begins.
func (x *site) order(at, site, n int) int {
	return (at + site*n/len(x.has)) * x.stride % n
}

// stride is a number without common divisor with n, near the golden part of it.
func stride(n int) int {
	k := max(1, n*618/1000)
	for gcd(k, n) != 1 {
		k++
	}
	return k
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// easier says whether another site has piece i as well, serves us, and alone has fewer pieces: what leads out of the site of rank
// is for those. For a while only, since the node that serves us may never get it.
func (s *State) easier(rank, i int) bool {
	x := s.site
	if x.begin == nil || s.now.Sub(x.since[i]) > stays {
		return false
	}
	than := x.alone[x.at(s.Sites[rank])]
	return slices.ContainsFunc(s.serving, func(k int32) bool {
		p, site := &s.peers[k], s.Sites[k]
		return p.up && !p.snubbed && !s.near(int(k)) && x.alone[x.at(site)] < than && (p.has.Has(i) || site >= 0 && x.has[site].Has(i))
	})
}

// at is the place of a site in what is kept by site, the last for nodes of none.
func (x *site) at(site int) int {
	if site < 0 {
		return len(x.has)
	}
	return site
}
