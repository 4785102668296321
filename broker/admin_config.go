package broker

import (
	"errors"
	"io/fs"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// configChanges orders the changes of the configuration at run time.
type configChanges struct {
	mu      sync.Mutex // held while a change is written to the file
	version body.DataVersion
}

// handleUpdateConfig serves UPDATE_BROKER_CONFIG. Everything takes effect and is written to the configuration file, or nothing.
func (b *Broker) handleUpdateConfig(r *remoting.Request) error {
	changed, err := b.updateConfig(r.Body)
	switch {
	case errors.Is(err, conf.ErrDenied):
		return code.New(code.NoPermission, "Can not update config in black list.")
	case err != nil:
		return code.New(code.InvalidParameter, "%v", err)
	}
	if err := b.configChanged(changed); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// updateConfig returns the keys that were changed.
func (b *Broker) updateConfig(text []byte) ([]string, error) {
	b.changes.mu.Lock()
	defer b.changes.mu.Unlock()
	next, changed, err := conf.Update(b.conf.Load(), text)
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	if err := b.saveConfig(conf.Values(next, changed)); err != nil {
		return nil, err
	}
	b.conf.Store(next)
	b.changes.version.Counter++
	b.changes.version.Timestamp = b.clk.NowMs()
	return changed, nil
}

// saveConfig writes values into the configuration file, if there is one.
func (b *Broker) saveConfig(values map[string]string) error {
	path := b.conf.Load().BrokerConfigPath
	if _, err := b.fs.Stat(path); errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("there is no configuration file: a change at run time lasts until the next start", zap.Any("values", values))
		return nil
	}
	return conf.EditFile(b.fs, path, values)
}

// configChanged has changed keys take effect that are not read from the configuration each time.
func (b *Broker) configChanged(changed []string) error {
	if len(changed) == 0 {
		return nil
	}
	c := b.conf.Load()
	sc, err := StoreConfig(c)
	if err != nil {
		return err
	}
	if err := b.store.Reconfigure(sc); err != nil {
		return err
	}
	b.sends.configure(c)
	b.lanes.configure(c)
	b.configureBursts(c)
	if slices.Contains(changed, "brokerPermission") {
		// The topics' version grows, for name servers that pass over a registration whose version they know.
		if err := b.commit(state.TopicPut(b.topics.get(c.BrokerName))); err != nil {
			return err
		}
	}
	if slices.Contains(changed, "brokerPermission") || slices.Contains(changed, "namesrvAddr") {
		b.names.inTime(b.names.registerAll)
	}
	b.log.Info("configuration changed", zap.Strings("keys", changed))
	return nil
}

// handleConfig serves GET_BROKER_CONFIG. Secrets are masked.
func (b *Broker) handleConfig(r *remoting.Request) error {
	b.changes.mu.Lock()
	version := b.changes.version
	text := conf.Text(b.conf.Load())
	b.changes.mu.Unlock()
	return r.OK(&header.GetBrokerConfigResponse{Version: string(fastjson.Marshal(&version))}, text)
}
