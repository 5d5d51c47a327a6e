package freshet

import "time"

var ReachAll = reachAll

// WithLife is c with a control plane that issues certificates for so long.
func WithLife(c NodeConfig, life time.Duration) NodeConfig {
	c.life = life
	return c
}
