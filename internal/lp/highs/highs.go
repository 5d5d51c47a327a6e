// Package highs asks HiGHS about linear programs: the solver of Huangfu and Hall (Mathematical Programming Computation, 2018), of the
// University of Edinburgh. It is the reference that our own simplex method is held against, and what is asked where that one fails.
//
// highs.wasm is HiGHS 1.15.3 as package highs 1.15.3 of the npm registry publishes it (build/highs.wasm, sha256 in
// highs_test.go), under the MIT licence beside it. Wazero runs it, without cgo. Names of its imports and exports are
// single letters, which build/highs.js of the package says the meaning of; they change with each version, and so do the tables here. What
// it imports is what a program without files and without an environment needs: memory that grows, a clock, and a
// place for what it prints. The clock stands still, so that an answer depends on the question alone.
//
// It is compiled at the first question, which takes some seconds. After that a program of 1,000 columns and 5,000 rows takes a fifth of a
// second, each time from the beginning.
package highs

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/freshet/freshet/internal/lp"
)

//go:embed highs.wasm
var wasm []byte

// What highs.wasm exports.
const (
	exportMemory = "u"
	exportBegin  = "v" // constructors, once
	exportCall   = "C" // Highs_lpCall
	exportFree   = "tc"
	exportMalloc = "uc"
)

// Solver asks HiGHS. The zero Solver is ready. It is not for concurrent use; Close ends it.
type Solver struct {
	runtime            wazero.Runtime
	memory             api.Memory
	call, malloc, free api.Function
}

// Solve solves p from the beginning.
func (s *Solver) Solve(p *lp.Program) (lp.Solution, error) {
	// A question takes no context: it waits for nothing and ends by itself.
	ctx := context.Background()
	if s.runtime == nil {
		if err := s.begin(ctx); err != nil {
			s.Close()
			return lp.Solution{}, fmt.Errorf("highs: begin: %w", err)
		}
	}
	sol, err := s.solve(ctx, p)
	if err != nil {
		s.Close() // whatever state it is in
		return lp.Solution{}, fmt.Errorf("highs: %w", err)
	}
	return sol, nil
}

// Close frees what the solver has. It may be asked again.
func (s *Solver) Close() {
	if s.runtime != nil {
		_ = s.runtime.Close(context.Background()) // it has no files; there is nothing to lose
	}
	*s = Solver{}
}

// compiled keeps the module's machine code, which takes seconds to make, for all solvers of the process.
var compiled = sync.OnceValue(wazero.NewCompilationCache)

// begin compiles the module, if no solver before has, and gives it what it imports.
func (s *Solver) begin(ctx context.Context) error {
	s.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiled()))
	if err := host(ctx, s.runtime); err != nil {
		return err
	}
	code, err := s.runtime.CompileModule(ctx, wasm) // not closed: that would take it out of the cache
	if err != nil {
		return err
	}
	module, err := s.runtime.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithName("highs").WithStartFunctions(exportBegin))
	if err != nil {
		return err
	}
	s.memory, s.call, s.malloc, s.free = module.ExportedMemory(exportMemory), module.ExportedFunction(exportCall), module.ExportedFunction(exportMalloc), module.ExportedFunction(exportFree)
	if s.memory == nil || s.call == nil || s.malloc == nil || s.free == nil {
		return errors.New("highs.wasm does not export what it should: the tables are of another version")
	}
	return nil
}

// Numbers of WASI and of errno.
const (
	wasiBadFile   = 8
	errnoNoSystem = 52
)

// host gives the module what it imports, by the names of highs.js.
func host(ctx context.Context, r wazero.Runtime) error {
	const i32, i64, f64 = api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeF64
	i := func(n int) []api.ValueType {
		types := make([]api.ValueType, n)
		for k := range types {
			types[k] = i32
		}
		return types
	}
	b := r.NewHostModuleBuilder("a")
	give := func(name string, params, results []api.ValueType, f func(m api.Module, stack []uint64)) {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) { f(m, stack) }), params, results).Export(name)
	}
	result := func(v uint64) func(api.Module, []uint64) {
		return func(_ api.Module, stack []uint64) { stack[0] = v }
	}
	stop := func(why string) func(api.Module, []uint64) {
		return func(api.Module, []uint64) { panic(errors.New(why)) } // wazero makes it the error of the call
	}
	nothing := func(api.Module, []uint64) {}
	noSystem := uint64(uint32(math.MaxUint32 - errnoNoSystem + 1)) // -errno
	give("a", i(3), nil, stop("it threw an exception"))            // __cxa_throw
	give("b", i(1), nil, stop("it called exit"))                   // exit
	give("c", nil, []api.ValueType{f64}, result(0))                // emscripten_get_now
	give("d", i(1), i(1), result(0))                               // fd_close
	give("e", i(3), i(1), result(noSystem))                        // fcntl64
	give("f", i(4), i(1), write)                                   // fd_write
	give("g", i(4), i(1), result(wasiBadFile))                     // fd_read
	give("h", i(3), i(1), result(noSystem))                        // ioctl
	give("i", i(4), i(1), result(noSystem))                        // openat
	give("j", nil, []api.ValueType{f64}, result(0))                // emscripten_date_now
	give("k", nil, nil, stop("it called abort"))                   // _abort_js
	give("l", []api.ValueType{i32, f64}, i(1), result(0))          // setitimer
	give("m", i(4), nil, nothing)                                  // tzset
	give("n", i(2), i(1), result(0))                               // environ_get
	give("o", i(2), i(1), func(m api.Module, stack []uint64) {     // environ_sizes_get: none
		m.Memory().WriteUint32Le(uint32(stack[0]), 0)
		m.Memory().WriteUint32Le(uint32(stack[1]), 0)
		stack[0] = 0
	})
	give("p", []api.ValueType{i32, i64, i32}, i(1), func(m api.Module, stack []uint64) { // clock_time_get
		m.Memory().WriteUint64Le(uint32(stack[2]), 0)
		stack[0] = 0
	})
	give("q", i(1), i(1), func(m api.Module, stack []uint64) { // emscripten_resize_heap
		const page = 1 << 16
		want, have := uint64(uint32(stack[0])), uint64(m.Memory().Size())
		want = max(want, min(have+have/4, 1<<31)) // more at once, as growing copies everything
		stack[0] = 1
		if want > have {
			if _, ok := m.Memory().Grow(uint32((want - have + page - 1) / page)); !ok {
				stack[0] = 0
			}
		}
	})
	give("r", i(1), nil, stop("it called proc_exit"))                         // proc_exit
	give("s", nil, nil, nothing)                                              // _emscripten_runtime_keepalive_clear
	give("t", []api.ValueType{i32, i64, i32, i32}, i(1), result(wasiBadFile)) // fd_seek
	_, err := b.Instantiate(ctx)
	return err
}

// write takes what the module prints, and drops it.
func write(m api.Module, stack []uint64) {
	sum := uint32(0)
	for k := range uint32(stack[2]) {
		n, _ := m.Memory().ReadUint32Le(uint32(stack[1]) + 8*k + 4)
		sum += n
	}
	m.Memory().WriteUint32Le(uint32(stack[3]), sum)
	stack[0] = 0
}

// solve hands p over as arrays, and reads the answer off others.
func (s *Solver) solve(ctx context.Context, p *lp.Program) (sol lp.Solution, err error) {
	const (
		columnwise = 1
		maximize   = -1
		optimal    = 7
		infinite   = 1e30
	)
	m, n := len(p.B), len(p.Cost)
	var starts, rows []uint32
	var values []float64
	for j := range n {
		starts = append(starts, uint32(len(rows)))
		for _, e := range p.Entries(int32(j)) {
			rows, values = append(rows, uint32(e.At)), append(values, e.Value)
		}
	}
	filled := func(n int, v float64) []float64 {
		f := make([]float64, n)
		for i := range f {
			f[i] = v
		}
		return f
	}
	var taken []uint64
	defer func() {
		for _, at := range taken {
			if _, failed := s.free.Call(ctx, at); failed != nil && err == nil {
				err = failed
			}
		}
	}()
	room := func(bytes int) uint64 {
		if err != nil {
			return 0
		}
		var at []uint64
		if at, err = s.malloc.Call(ctx, uint64(max(bytes, 8))); err != nil {
			return 0
		}
		if at[0] == 0 {
			err = fmt.Errorf("no memory for a program of %d rows and %d columns", m, n)
			return 0
		}
		taken = append(taken, at[0])
		return at[0]
	}
	put := func(at uint64, b []byte) uint64 {
		if err == nil && !s.memory.Write(uint32(at), b) {
			err = errors.New("an array lies outside of its memory")
		}
		return at
	}
	floats := func(v []float64) uint64 {
		b := make([]byte, 0, 8*len(v))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return put(room(len(b)), b)
	}
	whole := func(v []uint32) uint64 {
		b := make([]byte, 0, 4*len(v))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return put(room(len(b)), b)
	}
	args := []uint64{uint64(n), uint64(m), uint64(len(rows)), columnwise, api.EncodeI32(maximize), api.EncodeF64(0),
		floats(p.Cost), floats(make([]float64, n)), floats(filled(n, infinite)), floats(filled(m, -infinite)), floats(p.B),
		whole(starts), whole(rows), floats(values)}
	x, y := room(8*n), room(8*m)
	args = append(args, x, room(8*n), room(8*m), y, room(4*n), room(4*m))
	status := room(8)
	args = append(args, status)
	if err != nil {
		return sol, err
	}
	done, err := s.call.Call(ctx, args...)
	if err != nil {
		return sol, err
	}
	said, _ := s.memory.ReadUint32Le(uint32(status))
	if said != optimal {
		return sol, fmt.Errorf("a program of %d rows and %d columns: it returned %d, status %d, not optimal", m, n, int32(done[0]), said)
	}
	read := func(at uint64, n int) []float64 {
		v := make([]float64, n)
		b, ok := s.memory.Read(uint32(at), uint32(8*n))
		if !ok && err == nil {
			err = errors.New("an answer lies outside of its memory")
			return v
		}
		for i := range v {
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
		return v
	}
	sol = lp.Solution{X: read(x, n), Y: read(y, m)}
	return sol, err
}
