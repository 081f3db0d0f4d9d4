package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what a run has come to. Durations are in microseconds.
type Report struct {
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	CPUs     int      `json:"cpus"`
	Gate     string   `json:"gate"` // "own", or its address
	Rounds   int      `json:"rounds"`
	RoundMS  int64    `json:"round_ms"`
	Figures  []Figure `json:"figures"`
	Memory   *Memory  `json:"memory,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Problems []string `json:"problems,omitempty"` // what was not as it must be
}

// Figure is one thing that was measured.
type Figure struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	Ceiling bool    `json:"ceiling"` // of the machine, not of the gate
	Callers int     `json:"callers"`
	Calls   int64   `json:"calls"`
	Failed  int64   `json:"failed"`
	Rate    float64 `json:"per_second"` // the median of the rounds
	P50     int64   `json:"p50_us"`
	P90     int64   `json:"p90_us"`
	P99     int64   `json:"p99_us"`
	Max     int64   `json:"max_us"`
	CPU     int64   `json:"cpu_us,omitempty"` // processor time of a call, the median of the rounds
	Ratios  []Ratio `json:"ratios,omitempty"`
	Bars    []Bar   `json:"histogram"`
}

// Ratio sets a figure beside another: the median of the rounds.
type Ratio struct {
	Of    string  `json:"of"` // rate, over (microseconds at the median), added, cpu, trips
	To    string  `json:"to"` // the other's key
	Value float64 `json:"value"`
	text  string
}

// Memory is what a gate that was started for the run had in memory, and how large the program is, in bytes.
type Memory struct {
	Idle      int64 `json:"resident_idle"`
	AfterLoad int64 `json:"resident_after_load"`
	Binary    int64 `json:"binary"`
}

// report puts together what was measured.
func (r *run) report() *Report {
	out := &Report{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Gate: "own", Rounds: r.o.Rounds, RoundMS: r.o.Round.Milliseconds()}
	if r.o.Given != nil {
		out.Gate = r.w.urls[0]
	}
	for _, f := range r.figures {
		out.Figures = append(out.Figures, f.report())
		if f.failed > 0 {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %d failed, the first with: %v", f.name, f.failed, f.first))
		} else if f.all.Count() == 0 {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: nothing was measured", f.name))
		}
	}
	if r.w.idle > 0 {
		out.Memory = &Memory{Idle: r.w.idle, AfterLoad: resident(r.w.pids[0])}
		if info, err := os.Stat(r.o.Program); err == nil {
			out.Memory.Binary = info.Size()
		}
	}
	if inMemory(r.dir) {
		out.Notes = append(out.Notes, "the folder is in memory, where a sync costs nothing: name one on a disk with -dir")
	}
	if r.notTakenBack > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d requests could not be taken back: somebody has decided them, or "+
			"they wait until they expire", r.notTakenBack))
	}
	return out
}

func (f *figure) report() Figure {
	out := Figure{Key: f.key, Name: f.name, Ceiling: f.ceiling, Callers: f.callers, Calls: f.all.Count(), Failed: f.failed,
		P50: f.all.At(0.5).Microseconds(), P90: f.all.At(0.9).Microseconds(), P99: f.all.At(0.99).Microseconds(),
		Max: f.all.Max().Microseconds(), Bars: f.all.Bars()}
	var rates []float64
	var cpu []time.Duration
	for _, one := range f.rounds {
		rates, cpu = append(rates, one.rate), append(cpu, one.cpu)
	}
	out.Rate, out.CPU = median(rates), median(cpu).Microseconds()
	for _, one := range f.ratios {
		out.Ratios = append(out.Ratios, one.report())
	}
	return out
}

func (r *ratio) report() Ratio {
	out := Ratio{Of: string(r.of), To: r.to.key, Value: median(r.rounds)}
	switch r.of {
	case ofRate:
		out.text = fmt.Sprintf("%.3g of %s", out.Value, r.to.name)
	case ofAdded:
		out.text = fmt.Sprintf("adds %.3g of what %s does", out.Value, r.to.name)
	case ofCPU:
		out.text = fmt.Sprintf("%.3g of the processor time of %s", out.Value, r.to.name)
	case ofTrips:
		out.text = fmt.Sprintf("p50 is %.3g of %s", out.Value, r.to.name)
	case ofOver:
		d := time.Duration(out.Value * float64(time.Second))
		out.text, out.Value = fmt.Sprintf("p50 %s over %s", short(d), r.to.name), float64(d.Microseconds())
	}
	return out
}

// onRecord holds what was counted here against what the gate has on record. What it has recorded last it tells of a
// moment later.
func (r *run) onRecord(ctx context.Context) error {
	for _, f := range r.figures {
		if f.failed > 0 {
			return nil // which is reported already, and what it has left is not known
		}
	}
	c := newCaller(r.w.urls, "", 1)
	defer c.close()
	for tries := 1; ; tries++ {
		recorded := map[string]int64{}
		for range r.w.urls {
			got, err := c.send(ctx, http.MethodGet, "/metrics", "", http.StatusOK)
			if err != nil {
				return fmt.Errorf("the gate's own count: %w", err)
			}
			for kind, n := range events(got) {
				recorded[kind] += n
			}
		}
		less, err := compareRecords(r.made, recorded)
		if !less || tries == recordTries {
			return err
		}
		time.Sleep(recordedWithin / recordTries)
	}
}

// recordedWithin is how long a gate may take to tell of what it has on record.
const (
	recordedWithin = 2 * time.Second
	recordTries    = 100
)

// compareRecords returns an error unless as many events of each type are recorded as were made; less says that it is
// because some are missing that may be still to come.
func compareRecords(made, recorded map[string]int64) (less bool, err error) {
	for _, kind := range slices.Sorted(maps.Keys(made)) {
		if made[kind] != recorded[kind] {
			return recorded[kind] < made[kind],
				fmt.Errorf("%d %s were counted here, and the gate has %d on record", made[kind], kind, recorded[kind])
		}
	}
	return false, nil
}

// events reads how many events of each type there are from a page of metrics.
func events(page []byte) map[string]int64 {
	found := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(page)); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), "countersign_events_total{")
		_, rest, typed := strings.Cut(labels, `type="`)
		kind, _, _ := strings.Cut(rest, `"`)
		if n, err := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64); ok && typed && err == nil {
			found[kind] += int64(n)
		}
	}
	return found
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %d processors; rounds: %d of %s; rates are medians of rounds, and so are ratios\n",
		r.Platform, r.Go, r.CPUs, r.Rounds, time.Duration(r.RoundMS)*time.Millisecond)
	for _, ceiling := range []bool{true, false} {
		heading := "The gate"
		if ceiling {
			heading = "What this machine can do"
		}
		fmt.Fprintf(w, "\n%-26s %7s %8s %9s %9s %9s %9s\n", heading, "callers", "calls", "a second", "p50", "p99", "CPU")
		for _, f := range r.Figures {
			if f.Ceiling == ceiling {
				f.print(w)
			}
		}
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(w, "\nThe gate has %.1f MiB resident when idle and %.1f after the load. The program is %.1f MB.\n",
			float64(m.Idle)/(1<<20), float64(m.AfterLoad)/(1<<20), float64(m.Binary)/1e6)
	}
	for _, f := range r.Figures {
		if !f.Ceiling && f.Calls > 0 {
			fmt.Fprintf(w, "\n%s, %d at once\n%s", f.Name, f.Callers, drawBars(f.Bars, 40))
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "\nNote: %s.\n", n)
	}
}

func (f *Figure) print(w io.Writer) {
	us := func(n int64) string { return short(time.Duration(n) * time.Microsecond) }
	cpu := "-"
	if f.CPU > 0 {
		cpu = us(f.CPU)
	}
	fmt.Fprintf(w, "  %-24s %7d %8d %9.0f %9s %9s %9s\n", f.Name, f.Callers, f.Calls, f.Rate, us(f.P50), us(f.P99), cpu)
	for _, ratio := range f.Ratios {
		fmt.Fprintf(w, "    %s\n", ratio.text)
	}
}
