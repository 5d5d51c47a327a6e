package control

import (
	"encoding/json"
	"fmt"
	"time"
)

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes d as time.Duration prints it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what time.ParseDuration reads.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: want text such as \"90s\": %w", err)
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}
