package main

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
)

func copyTrees(ctx context.Context, root, folder string, copies int) (trees []tree, err error) {
	for n := range copies {
		t, err := copyTree(ctx, root, filepath.Join(folder, strconv.Itoa(n)))
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
	}
	return trees, nil
}

// inTrees does do for each item, one at a time in each tree. After an error it begins no
// more.
func inTrees[T any](ctx context.Context, trees []tree, items []T, do func(context.Context, tree, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan T, len(items))
	for _, item := range items {
		next <- item
	}
	close(next)
	var working sync.WaitGroup
	for _, t := range trees {
		working.Go(func() {
			for item := range next {
				if ctx.Err() != nil {
					return
				}
				if err := do(ctx, t, item); err != nil {
					stop(err)
				}
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}
