package steal

import "time"

// Pace is when a node begins the next of its works, and how long one takes it.
type Pace struct {
	Free time.Duration // from now until it has read what it has in hand, or one of its connections has
	Each time.Duration // from one work to the next; zero: it has read nothing yet, and nobody knows
}

// Loot is how many works an owner with so many on its list gives a thief that asks for at most so many. They come from the tail:
//
//	owner  in hand ──┤ 1 │ 2 │ 3 │ 4 │        each as long as it takes the owner
//	thief  in hand ────────────┤ 4 │          it is through with it before the owner would have been
//
// It gives half, as in the paper, but none that the thief would end later than itself. So a node may ask before it has nothing left to
// do, which hides the way of question and answer; and two that are left with one work do not pass it to and fro.
func Loot(list, most int, owner, thief Pace) int {
	k := min((list+1)/2, most)
	if owner.Each <= 0 || thief.Each <= 0 {
		return max(k, 0)
	}
	for k > 0 && thief.Free+time.Duration(k)*thief.Each >= owner.Free+time.Duration(list-k+1)*owner.Each {
		k--
	}
	return max(k, 0)
}
