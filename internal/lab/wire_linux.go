package lab

type wire struct{}

func (w *wire) close() error { return nil }
