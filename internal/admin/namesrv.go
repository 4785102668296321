package admin

import (
	"strings"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func namesrvCommands() []command {
	namespace := option{short: "s", long: "namespace", brief: "namespace"}.must()
	key := option{short: "k", long: "key", brief: "key"}.must()
	value := option{short: "v", long: "value", brief: "value"}.must()
	broker := option{short: "b", long: "brokerName", brief: "broker name"}.must()
	return []command{
		{"getNamesrvConfig", "Shows the configuration of the name servers.", nil, nil, true, getNamesrvConfig},
		{"updateNamesrvConfig", "Changes a configuration key of the name servers.", []option{key, value}, nil, false, updateNamesrvConfig},
		{"updateKvConfig", "Sets a value that the name servers keep.", []option{namespace, key, value}, nil, false, updateKvConfig},
		{"deleteKvConfig", "Deletes a value that the name servers keep.", []option{namespace, key}, nil, false, deleteKvConfig},
		{"wipeWritePerm", "Has the name servers send no more producers to a broker.", []option{broker}, nil, false, wipeWritePerm},
		{"addWritePerm", "Has the name servers send producers to a broker again.", []option{broker}, nil, false, addWritePerm},
	}
}

func getNamesrvConfig(t *tool) error {
	return t.onServers(func(addr string) error {
		r, err := t.callServer(addr, code.GetNamesrvConfig, nil, nil)
		if err != nil {
			return err
		}
		return t.showConfig(addr, r.Body)
	})
}

func updateNamesrvConfig(t *tool) error {
	text := conf.AppendProperty(nil, t.given["k"], t.given["v"])
	err := t.onServers(func(addr string) error {
		_, err := t.callServer(addr, code.UpdateNamesrvConfig, nil, text)
		return err
	})
	if err == nil {
		t.printf("update name server config success![%s]\n%s : %s\n", strings.Join(t.servers, ", "), t.given["k"], t.given["v"])
	}
	return err
}

func (t *tool) putKV(namespace, key, value string) error {
	return t.onServers(func(addr string) error {
		_, err := t.callServer(addr, code.PutKVConfig, &header.PutKVConfigRequest{Namespace: namespace, Key: key, Value: value}, nil)
		return err
	})
}

func (t *tool) deleteKV(namespace, key string) error {
	return t.onServers(func(addr string) error {
		_, err := t.callServer(addr, code.DeleteKVConfig, &header.DeleteKVConfigRequest{Namespace: namespace, Key: key}, nil)
		return err
	})
}

func updateKvConfig(t *tool) error {
	err := t.putKV(t.given["s"], t.given["k"], t.given["v"])
	if err == nil {
		t.printf("create or update kv config to namespace success.\n")
	}
	return err
}

func deleteKvConfig(t *tool) error {
	err := t.deleteKV(t.given["s"], t.given["k"])
	if err == nil {
		t.printf("delete kv config from namespace success.\n")
	}
	return err
}

func wipeWritePerm(t *tool) error {
	return t.onServers(func(addr string) error {
		var h header.WipeWritePermOfBrokerResponse
		if err := into(&h)(t.callServer(addr, code.WipeWritePermOfBroker, &header.WipeWritePermOfBrokerRequest{BrokerName: t.given["b"]}, nil)); err != nil {
			return err
		}
		t.printf("wipe write perm of broker[%s] in name server[%s] OK, %d\n", t.given["b"], addr, h.WipeTopicCount)
		return nil
	})
}

func addWritePerm(t *tool) error {
	return t.onServers(func(addr string) error {
		var h header.AddWritePermOfBrokerResponse
		if err := into(&h)(t.callServer(addr, code.AddWritePermOfBroker, &header.AddWritePermOfBrokerRequest{BrokerName: t.given["b"]}, nil)); err != nil {
			return err
		}
		t.printf("add write perm of broker[%s] in name server[%s] OK, %d\n", t.given["b"], addr, h.AddTopicCount)
		return nil
	})
}
