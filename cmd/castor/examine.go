package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// examineBroker asks a running broker, and the name servers that it names, for what an operator would look at first.
func examineBroker(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cl := remoting.NewClient(nil, nil)
	defer cl.Close()
	r, err := cl.Call(ctx, addr, code.GetBrokerRuntimeInfo, nil, nil)
	if err != nil {
		return fmt.Errorf("the broker does not answer: %w", err)
	}
	if err := r.Err(); err != nil {
		return err
	}
	var info body.KVTable
	if err := fastjson.Unmarshal(r.Body, &info); err != nil {
		return err
	}
	config, err := brokerConfig(ctx, cl, addr)
	if err != nil {
		return err
	}
	t := info.Table
	fmt.Printf("broker     %s %s, version %s, up %s\nlog        offsets %s to %s, %s to sync\ndisk       log %s, queues %s\nrates      in %s, out %s per second\n",
		config["brokerName"], addr, t["brokerVersionDesc"], t["runtime"], t["commitLogMinOffset"], t["commitLogMaxOffset"], t["remainHowManyDataToFlush"],
		t["commitLogDiskRatio"], t["consumeQueueDiskRatio"], first(t["putTps"]), first(t["getTransferredTps"]))
	problems := ailments(t, config)
	for _, ns := range strings.Split(config["namesrvAddr"], ";") {
		if ns == "" {
			problems = append(problems, "namesrvAddr is not set: clients cannot find this broker")
			continue
		}
		if p := examineRoute(ctx, cl, ns, addr, config); p != "" {
			problems = append(problems, p)
		}
	}
	sort.Strings(problems)
	return verdict(problems)
}

// ailments are the signs of trouble in what the broker says of itself.
func ailments(t, config map[string]string) (problems []string) {
	number := func(key string) float64 {
		f, _ := strconv.ParseFloat(strings.TrimSpace(t[key]), 64)
		return f
	}
	for _, disk := range []string{"commitLogDiskRatio", "consumeQueueDiskRatio"} {
		limit, _ := strconv.ParseFloat(config["diskSpaceWarningLevelRatio"], 64)
		if used := number(disk) * 100; limit > 0 && used > limit {
			problems = append(problems, fmt.Sprintf("%s is %.0f %%, above diskSpaceWarningLevelRatio %.0f: sends are refused; free space or lower fileReservedTime", disk, used, limit))
		}
	}
	if behind := number("dispatchBehindBytes"); behind > 64<<20 {
		problems = append(problems, fmt.Sprintf("queues are %.0f MiB behind the log: the disk is too slow", behind/(1<<20)))
	}
	if t["brokerActive"] == "false" {
		problems = append(problems, "the broker is not active: it delivers no delayed messages")
	}
	if config["brokerPermission"] != "6" && config["brokerPermission"] != "7" {
		problems = append(problems, "brokerPermission is "+config["brokerPermission"]+": not all clients may read and write")
	}
	return problems
}

func brokerConfig(ctx context.Context, cl *remoting.Client, addr string) (map[string]string, error) {
	r, err := cl.Call(ctx, addr, code.GetBrokerConfig, nil, nil)
	if err != nil {
		return nil, err
	}
	list, err := conf.ParseProperties(r.Body)
	m := make(map[string]string, len(list))
	for _, p := range list {
		m[p.Key] = p.Value
	}
	return m, err
}

// examineRoute looks whether a name server sends clients to the broker.
func examineRoute(ctx context.Context, cl *remoting.Client, ns, addr string, config map[string]string) string {
	r, err := cl.Call(ctx, ns, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: config["brokerName"], AcceptStandardJSONOnly: header.Some(true)}, nil)
	if err != nil {
		return fmt.Sprintf("name server %s does not answer: %v", ns, err)
	}
	if err := r.Err(); err != nil {
		return fmt.Sprintf("name server %s does not know the broker (%v): it registers within 30 s, unless the name server cannot be reached from it", ns, err)
	}
	var d body.TopicRouteData
	if err := fastjson.Unmarshal(r.Body, &d); err != nil {
		return fmt.Sprintf("name server %s: %v", ns, err)
	}
	for _, b := range d.BrokerDatas {
		for _, a := range b.BrokerAddrs {
			if a == addr {
				return ""
			}
		}
	}
	return fmt.Sprintf("name server %s sends clients to %v instead of %s: check brokerIP1", ns, d.BrokerDatas, addr)
}

func first(s string) string {
	s, _, _ = strings.Cut(s, " ")
	return s
}
