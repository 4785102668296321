package header

import (
	"bufio"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
)

// headerTypes says which headers the frames of a code carry; nil is none.
type headerTypes struct {
	request, response func() Header
}

func of[T any, P interface {
	*T
	Header
}]() Header {
	return P(new(T))
}

var byCode = map[code.Request]headerTypes{
	code.SendMessage:                     {of[SendMessageRequest], of[SendMessageResponse]},
	code.SendMessageV2:                   {of[SendMessageRequestV2], of[SendMessageResponse]},
	code.SendBatchMessage:                {of[SendMessageRequestV2], of[SendMessageResponse]},
	code.SendReplyMessage:                {of[SendMessageRequest], of[SendMessageResponse]},
	code.SendReplyMessageV2:              {of[SendMessageRequestV2], of[SendMessageResponse]},
	code.ConsumerSendMsgBack:             {of[ConsumerSendMsgBackRequest], nil},
	code.EndTransaction:                  {of[EndTransactionRequest], nil},
	code.RecallMessage:                   {of[RecallMessageRequest], of[RecallMessageResponse]},
	code.PushReplyMessageToClient:        {of[ReplyMessageRequest], nil},
	code.CheckTransactionState:           {of[CheckTransactionStateRequest], nil},
	code.ResumeCheckHalfMessage:          {of[ResumeCheckHalfMessageRequest], nil},
	code.PullMessage:                     {of[PullMessageRequest], of[PullMessageResponse]},
	code.LitePullMessage:                 {of[PullMessageRequest], of[PullMessageResponse]},
	code.QueryConsumerOffset:             {of[QueryConsumerOffsetRequest], of[QueryConsumerOffsetResponse]},
	code.UpdateConsumerOffset:            {of[UpdateConsumerOffsetRequest], nil},
	code.GetMaxOffset:                    {of[GetMaxOffsetRequest], of[GetMaxOffsetResponse]},
	code.GetMinOffset:                    {of[GetMinOffsetRequest], of[GetMinOffsetResponse]},
	code.SearchOffsetByTimestamp:         {of[SearchOffsetRequest], of[SearchOffsetResponse]},
	code.GetEarliestMsgStoreTime:         {of[GetEarliestMsgStoretimeRequest], of[GetEarliestMsgStoretimeResponse]},
	code.PopMessage:                      {of[PopMessageRequest], of[PopMessageResponse]},
	code.PeekMessage:                     {of[PeekMessageRequest], of[PopMessageResponse]},
	code.AckMessage:                      {of[AckMessageRequest], nil},
	code.ChangeMessageInvisibleTime:      {of[ChangeInvisibleTimeRequest], of[ChangeInvisibleTimeResponse]},
	code.Notification:                    {of[NotificationRequest], of[NotificationResponse]},
	code.PollingInfo:                     {of[PollingInfoRequest], of[PollingInfoResponse]},
	code.PopLiteMessage:                  {of[PopLiteMessageRequest], of[PopLiteMessageResponse]},
	code.NotifyUnsubscribeLite:           {of[NotifyUnsubscribeLiteRequest], nil},
	code.GetParentTopicInfo:              {of[GetParentTopicInfoRequest], nil},
	code.GetLiteTopicInfo:                {of[GetLiteTopicInfoRequest], nil},
	code.GetLiteClientInfo:               {of[GetLiteClientInfoRequest], nil},
	code.GetLiteGroupInfo:                {of[GetLiteGroupInfoRequest], nil},
	code.TriggerLiteDispatch:             {of[TriggerLiteDispatchRequest], nil},
	code.HeartBeat:                       {of[HeartbeatRequest], of[HeartbeatResponse]},
	code.UnregisterClient:                {of[UnregisterClientRequest], nil},
	code.GetConsumerListByGroup:          {of[GetConsumerListByGroupRequest], nil},
	code.LockBatchMQ:                     {of[LockBatchMqRequest], nil},
	code.UnlockBatchMQ:                   {of[UnlockBatchMqRequest], nil},
	code.NotifyConsumerIDsChanged:        {of[NotifyConsumerIdsChangedRequest], nil},
	code.ResetConsumerClientOffset:       {of[ResetOffsetRequest], nil},
	code.InvokeBrokerToResetOffset:       {of[ResetOffsetRequest], nil},
	code.GetConsumerStatusFromClient:     {of[GetConsumerStatusRequest], nil},
	code.InvokeBrokerToGetConsumerStatus: {of[GetConsumerStatusRequest], nil},
	code.GetConsumerRunningInfo:          {of[GetConsumerRunningInfoRequest], nil},
	code.ConsumeMessageDirectly:          {of[ConsumeMessageDirectlyResultRequest], nil},
	code.GetConsumerConnectionList:       {of[GetConsumerConnectionListRequest], nil},
	code.GetProducerConnectionList:       {of[GetProducerConnectionListRequest], nil},
	code.QueryMessage:                    {of[QueryMessageRequest], of[QueryMessageResponse]},
	code.ViewMessageByID:                 {of[ViewMessageRequest], nil},
	code.QueryConsumeQueue:               {of[QueryConsumeQueueRequest], nil},
	code.QueryCorrectionOffset:           {of[QueryCorrectionOffset], nil},
	code.QueryConsumeTimeSpan:            {of[QueryConsumeTimeSpanRequest], nil},
	code.QueryTopicConsumeByWho:          {of[QueryTopicConsumeByWhoRequest], nil},
	code.QueryTopicsByConsumer:           {of[QueryTopicsByConsumerRequest], nil},
	code.QuerySubscriptionByConsumer:     {of[QuerySubscriptionByConsumerRequest], nil},
	code.GetTopicStatsInfo:               {of[GetTopicStatsInfoRequest], nil},
	code.GetConsumeStats:                 {of[GetConsumeStatsRequest], nil},
	code.GetBrokerConsumeStats:           {of[GetConsumeStatsInBroker], nil},
	code.ViewBrokerStatsData:             {of[ViewBrokerStatsDataRequest], nil},
	code.CloneGroupOffset:                {of[CloneGroupOffsetRequest], nil},
	code.UpdateAndCreateTopic:            {of[CreateTopicRequest], nil},
	code.UpdateAndCreateStaticTopic:      {of[CreateTopicRequest], nil},
	code.UpdateAndCreateTopicList:        {of[CreateTopicListRequest], nil},
	code.DeleteTopicInBroker:             {of[DeleteTopicRequest], nil},
	code.GetAllTopicConfig:               {of[GetAllTopicConfigRequest], of[GetAllTopicConfigResponse]},
	code.GetTopicConfig:                  {of[GetTopicConfigRequest], nil},
	code.GetAllSubscriptionGroupConfig:   {of[GetAllSubscriptionGroupRequest], of[GetAllSubscriptionGroupResponse]},
	code.GetSubscriptionGroupConfig:      {of[GetSubscriptionGroupConfigRequest], nil},
	code.DeleteSubscriptionGroup:         {of[DeleteSubscriptionGroupRequest], nil},
	code.UpdateAndGetGroupForbidden:      {of[UpdateGroupForbiddenRequest], nil},
	code.GetBrokerConfig:                 {nil, of[GetBrokerConfigResponse]},
	code.SetCommitLogReadMode:            {of[SetCommitLogReadModeRequest], nil},
	code.SwitchTimerEngine:               {of[SwitchTimerEngineRequest], nil},
	code.CheckRocksDBCQWriteProgress:     {of[CheckRocksdbCqWriteProgressRequest], nil},
	code.ExportRocksDBConfigToJSON:       {of[ExportRocksDBConfigToJsonRequest], nil},
	code.AddBroker:                       {of[AddBrokerRequest], nil},
	code.RemoveBroker:                    {of[RemoveBrokerRequest], nil},
	code.ExchangeBrokerHAInfo:            {of[ExchangeHAInfoRequest], of[ExchangeHAInfoResponse]},
	code.ResetMasterFlushOffset:          {of[ResetMasterFlushOffset], nil},
	code.RegisterBroker:                  {of[RegisterBrokerRequest], of[RegisterBrokerResponse]},
	code.UnregisterBroker:                {of[UnRegisterBrokerRequest], nil},
	code.BrokerHeartbeat:                 {of[BrokerHeartbeatRequest], nil},
	code.QueryDataVersion:                {of[QueryDataVersionRequest], of[QueryDataVersionResponse]},
	code.GetRouteInfoByTopic:             {of[GetRouteInfoRequest], nil},
	code.GetBrokerMemberGroup:            {of[GetBrokerMemberGroupRequest], nil},
	code.RegisterTopicInNamesrv:          {of[RegisterTopicRequest], nil},
	code.DeleteTopicInNamesrv:            {of[DeleteTopicFromNamesrvRequest], nil},
	code.WipeWritePermOfBroker:           {of[WipeWritePermOfBrokerRequest], of[WipeWritePermOfBrokerResponse]},
	code.AddWritePermOfBroker:            {of[AddWritePermOfBrokerRequest], of[AddWritePermOfBrokerResponse]},
	code.GetTopicsByCluster:              {of[GetTopicsByClusterRequest], nil},
	code.PutKVConfig:                     {of[PutKVConfigRequest], nil},
	code.GetKVConfig:                     {of[GetKVConfigRequest], of[GetKVConfigResponse]},
	code.DeleteKVConfig:                  {of[DeleteKVConfigRequest], nil},
	code.GetKVListByNamespace:            {of[GetKVListByNamespaceRequest], nil},
	code.NotifyMinBrokerIDChange:         {of[NotifyMinBrokerIdChangeRequest], nil},
	code.ControllerAlterSyncStateSet:     {of[AlterSyncStateSetRequest], of[AlterSyncStateSetResponse]},
	code.ControllerElectMaster:           {of[ElectMasterRequest], of[ElectMasterResponse]},
	code.ControllerRegisterBroker:        {of[RegisterBrokerToControllerRequest], of[RegisterBrokerToControllerResponse]},
	code.ControllerGetReplicaInfo:        {of[GetReplicaInfoRequest], of[GetReplicaInfoResponse]},
	code.ControllerGetMetadataInfo:       {nil, of[GetMetaDataResponse]},
	code.ControllerGetNextBrokerID:       {of[GetNextBrokerIdRequest], of[GetNextBrokerIdResponse]},
	code.ControllerApplyBrokerID:         {of[ApplyBrokerIdRequest], of[ApplyBrokerIdResponse]},
	code.HandOver:                        {of[HandOverRequest], nil},
	code.NotifyBrokerRoleChanged:         {of[NotifyBrokerRoleChangedRequest], nil},
	code.CleanBrokerData:                 {of[CleanControllerBrokerDataRequest], nil},
	code.AuthCreateUser:                  {of[CreateUserRequest], nil},
	code.AuthUpdateUser:                  {of[UpdateUserRequest], nil},
	code.AuthDeleteUser:                  {of[DeleteUserRequest], nil},
	code.AuthGetUser:                     {of[GetUserRequest], nil},
	code.AuthListUser:                    {of[ListUsersRequest], nil},
	code.AuthCreateACL:                   {of[CreateAclRequest], nil},
	code.AuthUpdateACL:                   {of[UpdateAclRequest], nil},
	code.AuthDeleteACL:                   {of[DeleteAclRequest], nil},
	code.AuthGetACL:                      {of[GetAclRequest], nil},
	code.AuthListACL:                     {of[ListAclsRequest], nil},
}

// allHeaders returns a constructor of every header by the name of its type.
func allHeaders() map[string]func() Header {
	all := map[string]func() Header{
		"RpcRequest":   of[RpcRequest],
		"TopicRequest": of[TopicRequest],
		"SendContext":  of[SendContext],
	}
	for _, ht := range byCode {
		for _, f := range []func() Header{ht.request, ht.response} {
			if f != nil {
				all[reflect.TypeOf(f()).Elem().Name()] = f
			}
		}
	}
	return all
}

// TestTableHasEveryHeader keeps the tests that go through the table complete.
func TestTableHasEveryHeader(t *testing.T) {
	f, err := os.Open("headers_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := allHeaders()
	method := regexp.MustCompile(`^func \(h \*(\w+)\) AppendFields`)
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		m := method.FindStringSubmatch(sc.Text())
		if m == nil {
			continue
		}
		n++
		if known[m[1]] == nil {
			t.Errorf("%s is not in the table", m[1])
		}
	}
	if n != len(known) {
		t.Errorf("%d headers generated, %d in the table", n, len(known))
	}
}
