package broker

import (
	"fmt"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Modes of SET_COMMITLOG_READ_MODE (LibC).
const readNormal = "0"

// handleReadMode serves SET_COMMITLOG_READ_MODE: how the kernel reads ahead in the mapped files of a Java broker. Here old
// messages are read by length, not through a mapping, so there is nothing to choose.
func (b *Broker) handleReadMode(r *remoting.Request, h *header.SetCommitLogReadModeRequest) error {
	if h.ReadAheadMode != readNormal {
		return code.New(code.InvalidParameter, "set commitlog readahead mode failed, mode: %s: this broker reads with mode 0 only", shown(h.ReadAheadMode))
	}
	r.Reply(code.Success, fmt.Sprintf("set commitlog readahead mode success, mode: %s", h.ReadAheadMode), nil, nil)
	return nil
}

// handleCheckRocksDBQueues serves CHECK_ROCKSDB_CQ_WRITE_PROGRESS: status 0, since no queue is in RocksDB and none differs.
func (b *Broker) handleCheckRocksDBQueues(r *remoting.Request, _ *header.CheckRocksdbCqWriteProgressRequest) error {
	return r.OK(nil, fastjson.Marshal(&body.CheckRocksdbCqWriteResult{CheckResult: "no consume queue is in RocksDB"}))
}

// handleExportRocksDB serves EXPORT_ROCKSDB_CONFIG_TO_JSON: there is nothing to export, which is what a Java broker without RocksDB
// answers.
func (b *Broker) handleExportRocksDB(r *remoting.Request, _ *header.ExportRocksDBConfigToJsonRequest) error {
	r.Reply(code.Success, "export done.", nil, nil)
	return nil
}
