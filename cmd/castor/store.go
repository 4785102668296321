package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store"
)

// runStore is `castor store export`.
func runStore(_ context.Context, args []string) error {
	if len(args) == 0 || args[0] != "export" {
		return errors.New("usage: castor store export [-c FILE] [-to DIR]: write topics, groups and offsets of a stopped broker as a Java broker's config/*.json")
	}
	fs := flag.NewFlagSet("castor store export", flag.ContinueOnError)
	file := fs.String("c", "", "the broker's properties file")
	root := fs.String("dir", "", "the store, instead of the one that the file names")
	to := fs.String("to", "", "where to write; without it config in the store, where Java reads it")
	if err := fs.Parse(args[1:]); err != nil {
		return done(err)
	}
	cfg, err := loadStore(*file, *root)
	if err != nil {
		return err
	}
	if *to == "" {
		*to = filepath.Join(cfg.Root, "config")
	}
	log, err := newLogger(&serverFlags{logLevel: "info"})
	if err != nil {
		return err
	}
	if err := store.Export(cfg, vfs.OS{}, log, *to); err != nil {
		return err
	}
	fmt.Printf("metadata written to %s; a Java broker that is started on this store goes on from here\n", *to)
	return nil
}

func loadStore(file, root string) (store.Config, error) {
	over := map[string]string{}
	if root != "" {
		over["storePathRootDir"] = root
	}
	c, _, err := conf.Load[conf.Broker](file, over, os.LookupEnv)
	if err != nil {
		return store.Config{}, err
	}
	return broker.StoreConfig(c)
}

// runDoctor checks a store, or a running broker, and says in words what is wrong.
func runDoctor(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("castor doctor", flag.ContinueOnError)
	file := fs.String("c", "", "the broker's properties file")
	root := fs.String("dir", "", "the store of a stopped broker")
	addr := fs.String("b", "", "a running broker, host:port")
	if err := fs.Parse(args); err != nil {
		return done(err)
	}
	if *addr != "" {
		return examineBroker(ctx, *addr)
	}
	cfg, err := loadStore(*file, *root)
	if err != nil {
		return err
	}
	in, err := store.Inspect(cfg, vfs.OS{}, func(offset, end int64) { fmt.Printf("  read %d of %d MiB\n", offset>>20, end>>20) })
	if err != nil {
		return err
	}
	fmt.Printf("store      %s\nlog        %d segments, offsets %d to %d, %d records\nqueues     %d\nmetadata   %d topics, %d groups\nlast stop  %s; the next start reads %d MiB of the log\n",
		cfg.Root, in.Segments, in.LogMin, in.LogEnd, in.Records, in.Queues, in.Topics, in.Groups, map[bool]string{true: "in order", false: "not in order"}[in.Clean], in.RecoverFor>>20)
	return verdict(in.Problems)
}

func verdict(problems []string) error {
	if len(problems) == 0 {
		fmt.Println("no problem found")
		return nil
	}
	for _, p := range problems {
		fmt.Println("problem    " + p)
	}
	return fmt.Errorf("%d problems found", len(problems))
}
