package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// oneSync is an append of 4 KiB that is on the disk when it returns: what one caller of a durable store can have at
// most.
func oneSync(dir string) (do operation, done func() error, err error) {
	f, err := os.Create(filepath.Join(dir, "ceiling.sync"))
	if err != nil {
		return nil, nil, err
	}
	page := make([]byte, 4<<10)
	return func(context.Context, int64) (time.Duration, error) {
		_, err := f.Write(page)
		return 0, errors.Join(err, syncData(f))
	}, f.Close, nil
}

const (
	recordBytes = 1500 // about what a quarantined call writes
	batchMost   = 128
)

// groupLog is the ceiling of any durable store: what its callers want written, 1.5 KB each, goes to the disk in
// batches, with one write and one sync for each.
func groupLog(dir string) (do operation, done func() error, err error) {
	f, err := os.Create(filepath.Join(dir, "ceiling.log"))
	if err != nil {
		return nil, nil, err
	}
	queue := make(chan chan error, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		batch, big := make([]chan error, 0, batchMost), make([]byte, batchMost*recordBytes)
		for first := range queue {
			batch = fill(append(batch[:0], first), queue)
			_, err := f.Write(big[:len(batch)*recordBytes])
			if err == nil {
				err = syncData(f)
			}
			for _, answer := range batch {
				answer <- err
			}
		}
	})
	answers := sync.Pool{New: func() any { return make(chan error, 1) }}
	do = func(context.Context, int64) (time.Duration, error) {
		answer, _ := answers.Get().(chan error)
		defer answers.Put(answer)
		queue <- answer
		return 0, <-answer
	}
	return do, func() error {
		close(queue)
		writer.Wait()
		return f.Close()
	}, nil
}

// fill adds what waits already, as far as there is room.
func fill(batch []chan error, queue <-chan chan error) []chan error {
	for len(batch) < batchMost {
		select {
		case next, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}
