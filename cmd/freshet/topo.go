package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/picture"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

func newTopo() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topo",
		GroupID: "try",
		Short:   "Show, check, generate and convert descriptions of networks",
		Long: `A topology is a file that says which hosts, switches and links a network has, and
what they carry: YAML or JSON as in docs/topology.md, or GraphML of the Internet Topology
Zoo; the name - is standard input. Simulations and plans happen on one.`,
		Example: `  freshet topo generate intrigger --hosts 400 --seed 1 -o net.yaml
  freshet topo show net.yaml --svg net.svg
  freshet topo convert Geant2012.graphml --hosts 200 -o geant.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopoShow(), newTopoGenerate(), newTopoCheck(), newTopoConvert())
	return cmd
}

// zooFlags are flags for what GraphML does not have.
type zooFlags struct {
	hosts        int
	access, back unit.Bandwidth
	delay        time.Duration
	rate         unit.Bandwidth
}

// zooNames are their names.
var zooNames = []string{"hosts", "access", "access-back", "access-delay", "rate"}

func (z *zooFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	z.access, z.rate, z.delay = unit.Gbit, 10*unit.Gbit, 50*time.Microsecond
	f.IntVar(&z.hosts, "hosts", 0, "of GraphML: `number` of hosts, dealt out to its nodes (default one each)")
	f.Var(bits{&z.access}, "access", "of GraphML: rate of the hosts' links")
	f.Var(bits{&z.back}, "access-back", "of GraphML: rate of the hosts' links towards them (default: --access)")
	f.DurationVar(&z.delay, "access-delay", z.delay, "of GraphML: `time` over the hosts' links, one way")
	f.Var(bits{&z.rate}, "rate", "of GraphML: rate of edges whose speed it does not say")
}

func (z *zooFlags) zoo() topo.Zoo {
	a := topo.Access{Rate: []unit.Bandwidth{z.access}, Delay: z.delay}
	if z.back > 0 {
		a.Back = []unit.Bandwidth{z.back}
	}
	return topo.Zoo{Hosts: z.hosts, Access: a, Rate: z.rate}
}

// bits is a flag of a rate whose default is shown in bits.
type bits struct{ *unit.Bandwidth }

func (b bits) String() string {
	if b.Bandwidth == nil || *b.Bandwidth == 0 {
		return ""
	}
	return strings.ReplaceAll(b.Bits(), " ", "")
}

// rates is a flag of one rate or of a range, as 100Mbit..1Gbit.
type rates struct{ lo, hi *unit.Bandwidth }

func (r rates) String() string {
	if r.lo == nil {
		return ""
	}
	return bits{r.lo}.String() + ".." + bits{r.hi}.String()
}

func (r rates) Type() string { return "rate" }

func (r rates) Set(s string) error {
	lo, hi, isRange := strings.Cut(s, "..")
	if !isRange {
		hi = lo
	}
	if err := r.lo.Set(lo); err != nil {
		return err
	}
	if err := r.hi.Set(hi); err != nil {
		return err
	}
	if *r.hi == 0 || *r.lo > *r.hi {
		return errors.New("want one rate, or the smaller and the larger as 100Mbit..1Gbit")
	}
	return nil
}

// readTopology reads the description of a network from a file, or from standard input if its name is "-".
func readTopology(ctx context.Context, name string) (*topo.Network, error) {
	text, err := readText(ctx, name)
	if err != nil {
		return nil, err
	}
	return parseTopology(ctx, name, text, topo.Zoo{})
}

// parseTopology parses the text of a file, which may be GraphML, and z has what that has not.
func parseTopology(ctx context.Context, name string, text []byte, z topo.Zoo) (*topo.Network, error) {
	n, err := asLongAs(ctx, func() (*topo.Network, error) { return topo.ParseAny(text, z) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// writeTopology writes n to a file, as JSON if its name ends so, or to w if there is no name.
func writeTopology(w io.Writer, n *topo.Network, name string, asJSON bool) error {
	text := n.YAML()
	if asJSON || strings.HasSuffix(name, ".json") {
		text = n.JSON()
	}
	if name == "" || name == "-" {
		_, err := w.Write(text)
		return err
	}
	return writeFile(name, text)
}

func outFlag(cmd *cobra.Command, out *string) {
	cmd.Flags().StringVarP(out, "out", "o", "", "`file` to write; JSON if its name ends in .json (default: standard output)")
}

func newTopoGenerate() *cobra.Command {
	s := topo.Shape{Hosts: 400, Lo: 100 * unit.Mbit, Hi: unit.Gbit, Backbone: 1, Seed: 1}
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "generate KIND",
		Short: "Draw a network from a seed",
		Long: `generate draws a network from a seed. KIND is

  flat       hosts on one switch
  star       16 clusters of the same size on one switch
  intrigger  16 sites of 10 to 50 hosts, in 4 regions
  deep       18 sites of racks of 5 to 12 hosts, in 4 regions
  skewed     10 clusters, the i-th with 1/i of the hosts of the first
  fattree    pods of edge and aggregation switches under core switches, which is no tree
  big        racks of 20 to 40 hosts, pods of 32 racks

The rate of each link is drawn between the two of --rate. Sites, racks and the delays of a fat tree are drawn, too.`,
		Example: `  freshet topo generate intrigger --seed 7 -o net.yaml
  freshet topo generate big --hosts 100000 --rate 1Gbit --backbone 4 -o big.json`,
		Args: wantArgs("KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Kind = args[0]
			if err := cmp.Or(notZero(cmd, "hosts", s.Hosts), notZero(cmd, "groups", s.Groups), notZero(cmd, "backbone", s.Backbone)); err != nil {
				return err
			}
			n, err := asLongAs(cmd.Context(), func() (*topo.Network, error) {
				n, err := s.Network()
				if err == nil {
					err = shapeFits(s, cmd.Flags().Changed)
				}
				if err != nil {
					err = usageError{err}
				}
				return n, err
			})
			if err != nil {
				return err
			}
			return writeTopology(cmd.OutOrStdout(), n, out, asJSON)
		},
		ValidArgs: topo.Kinds,
	}
	f := cmd.Flags()
	f.IntVar(&s.Hosts, "hosts", s.Hosts, "`number` of hosts")
	f.IntVar(&s.Groups, "groups", 0, "`number` of clusters, sites or pods; ports of a fat tree's switches (default: as above)")
	f.Var(rates{&s.Lo, &s.Hi}, "rate", "of links: one, or LOW..HIGH")
	f.BoolVar(&s.Asymmetric, "asymmetric", false, "draw the two directions of a link each by itself; with a range of rates only")
	f.Float64Var(&s.Backbone, "backbone", s.Backbone, "`factor` of the rates between switches; flat has none")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "`number` that the randomness begins with; flat, star and skewed draw rates alone")
	outFlag(cmd, &out)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// notZero refuses a flag that was given as 0 where that stands for what it is by default.
func notZero[T int | float64 | unit.Bandwidth](cmd *cobra.Command, flag string, value T) error {
	if value == 0 && cmd.Flags().Changed(flag) {
		return usage("--%s 0: want more than 0", flag)
	}
	return nil
}

// shapeFits refuses flags of what a shape does not draw.
func shapeFits(s topo.Shape, given func(flag string) bool) error {
	switch {
	case given("backbone") && s.Kind == "flat":
		return errors.New("--backbone: a flat network has no links between switches")
	case given("asymmetric") && s.Lo == s.Hi:
		return errors.New("--asymmetric: both directions have the one rate of --rate; want a range, LOW..HIGH")
	}
	return nil
}

func newTopoConvert() *cobra.Command {
	var z zooFlags
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Write a network as YAML or JSON; read GraphML, too",
		Long: `convert reads a network from YAML, JSON or GraphML of the Internet Topology Zoo, and writes
it as YAML or JSON. GraphML has no hosts: they are dealt out to its nodes, except to those that
belong to other networks. Rates that it does not say are those of the flags; delays follow from
where the nodes are.`,
		Example: `  freshet topo convert Geant2012.graphml --hosts 200 --access 1Gbit -o geant.yaml
  freshet topo convert net.yaml --json`,
		Args: wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(overwrites("out", out, args[0]), notZero(cmd, "hosts", z.hosts), notZero(cmd, "access-back", z.back), notZero(cmd, "rate", z.rate)); err != nil {
				return err
			}
			text, err := readText(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, name := range zooNames {
				if cmd.Flags().Changed(name) && !topo.IsXML(text) {
					return usage("--%s: it is of GraphML, and %s is none", name, args[0])
				}
			}
			n, err := parseTopology(cmd.Context(), args[0], text, z.zoo())
			if err != nil {
				return err
			}
			return writeTopology(cmd.OutOrStdout(), n, out, asJSON)
		},
	}
	z.add(cmd)
	outFlag(cmd, &out)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newTopoCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a description of a network",
		Long: `check reads a network. What makes it none is an error that names the line and the field. What
may be meant so, such as a network in parts, is a note, and no error.`,
		Example: `  freshet topo check net.yaml`,
		Args:    wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := readTopology(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			s := summarise(topo.NewGraph(n))
			return printed(cmd.OutOrStdout(), func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s\n", args[0], s)
				for _, note := range s.Notes {
					fmt.Fprintf(w, "note: %s\n", note)
				}
			})
		},
	}
}

func newTopoShow() *cobra.Command {
	var svg, route string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Sum a network up, draw it, show a route",
		Long: `show says how large a network is, what its links carry and what its sites are. With --svg it
draws it: beyond a hundred hosts each site is one row or one circle.`,
		Example: `  freshet topo show net.yaml --svg net.svg
  freshet topo show net.yaml --route h1,h200`,
		Args: wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("svg") && svg == "" {
				return usage("--svg is empty: want a file")
			}
			if err := overwrites("svg", svg, args[0]); err != nil {
				return err
			}
			n, err := readTopology(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			g := topo.NewGraph(n)
			s := summarise(g)
			if cmd.Flags().Changed("route") {
				if s.Route, err = findRoute(g, route); err != nil {
					return err
				}
			}
			if svg != "" {
				drawn, err := asLongAs(cmd.Context(), func() ([]byte, error) {
					return picture.Draw(g, picture.Options{Title: filepath.Base(args[0])}), nil
				})
				if err != nil {
					return err
				}
				if err := writeFile(svg, drawn); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printed(cmd.OutOrStdout(), func(w io.Writer) {
				s.print(w)
				if svg != "" {
					fmt.Fprintf(w, "\nPicture: %s\n", svg)
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&svg, "svg", "", "`file` to draw it into")
	f.StringVar(&route, "route", "", "show the route between two hosts or switches: `FROM,TO`")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// summary is a network in a few numbers. Rates are bytes per second.
type summary struct {
	Hosts    int       `json:"hosts"`
	Switches int       `json:"switches"`
	Links    int       `json:"links"`
	Routes   int       `json:"routes"`
	Parts    int       `json:"parts"`
	Tree     bool      `json:"tree"`
	Up       *spread   `json:"from_hosts"`
	Down     *spread   `json:"to_hosts"`
	Between  *spread   `json:"between_switches"`
	Sites    []siteSum `json:"sites"`
	Notes    []string  `json:"notes"`
	Route    *routeSum `json:"route,omitempty"`
	half     int       // links
	cycles   bool
}

// spread is how rates of several directions of links differ.
type spread struct {
	Count  int            `json:"count"`
	Min    unit.Bandwidth `json:"min"`
	Median unit.Bandwidth `json:"median"`
	Max    unit.Bandwidth `json:"max"`
}

type siteSum struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
}

type routeSum struct {
	Places []string       `json:"places"`
	Rate   unit.Bandwidth `json:"rate"` // of its narrowest link
	DelayS float64        `json:"delay_s"`
	rates  []unit.Bandwidth
}

func newSpread(rs []unit.Bandwidth) *spread {
	if len(rs) == 0 {
		return nil
	}
	slices.Sort(rs)
	return &spread{len(rs), rs[0], rs[len(rs)/2], rs[len(rs)-1]}
}

func (s *spread) String() string {
	if s.Min == s.Max {
		return s.Min.Bits()
	}
	return fmt.Sprintf("%s to %s, median %s", s.Min.Bits(), s.Max.Bits(), s.Median.Bits())
}

func summarise(g *topo.Graph) *summary {
	n := g.Network()
	s := &summary{Hosts: len(n.Hosts), Switches: len(n.Switches), Links: len(n.Links), Routes: len(n.Routes), Tree: g.Tree() != nil, cycles: g.Cycles(), Sites: []siteSum{}, Notes: []string{}}
	note := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	part, parts := g.Parts()
	s.Parts = parts
	var up, down, between []unit.Bandwidth
	zeros, zero := 0, topo.Channel(0)
	for c := range topo.Channel(g.Channels()) {
		r := g.Rate(c)
		if r == 0 {
			if zeros == 0 {
				zero = c
			}
			zeros++
		}
		switch {
		case g.From(c) < g.Hosts():
			up = append(up, r)
		case g.To(c) < g.Hosts():
			down = append(down, r)
		default:
			between = append(between, r)
		}
	}
	s.Up, s.Down, s.Between = newSpread(up), newSpread(down), newSpread(between)
	for i := range n.Links {
		if n.Links[i].Half {
			s.half++
		}
	}
	at := map[string]int{}
	for _, h := range n.Hosts {
		if h.Site == "" {
			continue
		}
		i, ok := at[h.Site]
		if !ok {
			i = len(s.Sites)
			at[h.Site] = i
			s.Sites = append(s.Sites, siteSum{Name: h.Site})
		}
		s.Sites[i].Hosts++
	}
	lone, other, several := -1, -1, 0
	for h := range g.Hosts() {
		switch {
		case len(g.Out(h)) == 0:
			lone = h
		case len(g.Out(h)) > 1:
			several++
		}
		if part[h] != part[0] && other < 0 {
			other = h
		}
	}
	if s.cycles {
		note("there are cycles, so several ways between some places: the route is that of the smallest delay, and the bound of a plan for more than 12 destinations of a transfer may be more than any plan can have")
	}
	if other >= 0 {
		note("it is in parts: %s and %s do not reach each other", g.Name(0), g.Name(other))
	}
	if lone >= 0 && s.Hosts > 1 {
		note("%s has no link", g.Name(lone))
	}
	if zeros > 0 {
		note("%s nothing, such as %s to %s", counted(zeros, "direction of a link carries", "directions of links carry"), g.Name(g.From(zero)), g.Name(g.To(zero)))
	}
	if several > 0 {
		note("%s several links; nothing passes through a host", counted(several, "host has", "hosts have"))
	}
	return s
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (s *summary) String() string {
	kind := "no tree"
	switch {
	case s.Tree:
		kind = "a tree"
	case s.cycles:
		kind = "with cycles"
	}
	if s.Parts > 1 {
		kind += fmt.Sprintf(" in %d parts", s.Parts)
		if s.Tree {
			kind = fmt.Sprintf("%d trees", s.Parts)
		}
	}
	return fmt.Sprintf("%s, %s, %s; %s", count(s.Hosts, "host"), counted(s.Switches, "switch", "switches"), count(s.Links, "link"), kind)
}

func (s *summary) print(w io.Writer) {
	const mostSites = 24
	fmt.Fprintf(w, "%s\n", s)
	for _, line := range []struct {
		what   string
		spread *spread
	}{{"from hosts", s.Up}, {"to hosts", s.Down}, {"between switches", s.Between}} {
		if line.spread != nil {
			fmt.Fprintf(w, "  %-17s %s\n", line.what, line.spread)
		}
	}
	if s.half > 0 {
		fmt.Fprintf(w, "  %-17s %s\n", "half duplex", count(s.half, "link"))
	}
	if s.Routes > 0 {
		fmt.Fprintf(w, "  %-17s %d\n", "routes listed", s.Routes)
	}
	if len(s.Sites) > 0 {
		width := 4
		for _, site := range s.Sites[:min(len(s.Sites), mostSites)] {
			width = max(width, len(site.Name))
		}
		fmt.Fprintf(w, "\n%-*s  HOSTS\n", width, "SITE")
		for i, site := range s.Sites {
			if i == mostSites {
				fmt.Fprintf(w, "and %d more\n", len(s.Sites)-i)
				break
			}
			fmt.Fprintf(w, "%-*s  %d\n", width, site.Name, site.Hosts)
		}
	}
	if r := s.Route; r != nil {
		fmt.Fprintf(w, "\n%s", r.Places[0])
		for i, place := range r.Places[1:] {
			fmt.Fprintf(w, " ──%s──> %s", strings.ReplaceAll(r.rates[i].Bits(), " ", ""), place)
		}
		fmt.Fprintf(w, "\n%s, %v one way\n", r.Rate.Bits(), time.Duration(r.DelayS*float64(time.Second)).Round(time.Nanosecond))
	}
	if len(s.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

// findRoute finds the route of "FROM,TO".
func findRoute(g *topo.Graph, ends string) (*routeSum, error) {
	a, b, ok := strings.Cut(ends, ",")
	if !ok || a == "" || b == "" {
		return nil, usage("--route %q: want FROM,TO", ends)
	}
	if a == b {
		return nil, usage("--route %q: it ends where it begins; want two places", ends)
	}
	var places [2]int
	for i, name := range []string{a, b} {
		if places[i], ok = g.Place(name); !ok {
			return nil, fmt.Errorf("--route: there is no host or switch %q", name)
		}
	}
	path, delay, ok := g.Router().Route(nil, places[0], places[1])
	if !ok {
		return nil, fmt.Errorf("--route: there is no way from %s to %s", a, b)
	}
	r := &routeSum{Places: []string{a}, DelayS: delay.Seconds()}
	for i, c := range path {
		r.Places = append(r.Places, g.Name(g.To(c)))
		r.rates = append(r.rates, g.Rate(c))
		if i == 0 || g.Rate(c) < r.Rate {
			r.Rate = g.Rate(c)
		}
	}
	return r, nil
}
