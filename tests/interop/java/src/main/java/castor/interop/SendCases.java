package castor.interop;

import static castor.interop.Kit.message;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeaderV2;
import org.apache.rocketmq.remoting.protocol.route.QueueData;

/** Sends of every kind, and what is refused. */
final class SendCases {
    static final List<Case> CASES = List.of(
        Case.shared("send.sync", SendCases::sync),
        Case.shared("send.async", SendCases::async),
        Case.shared("send.oneway", SendCases::oneway),
        Case.shared("send.auto-create", SendCases::autoCreate),
        Case.shared("send.illegal-topic", SendCases::illegalTopic),
        Case.shared("send.size-limits", SendCases::sizeLimits),
        Case.shared("send.queue-selector", SendCases::queueSelector),
        Case.shared("send.bad-queue-id", SendCases::badQueueId),
        Case.shared("send.bad-requests", SendCases::badRequests));

    private static final int COUNT = 1000;
    private static final int QUEUES = 4;
    private static final int BODY_LIMIT = 4 << 20;

    private SendCases() {
    }

    private static void sync(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        List<SendResult> results = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            Message message = message(topic, "sync-" + i);
            SendResult result = kit.producer().send(message);
            Check.equal(MessageClientIDSetter.getUniqID(message), result.getMsgId(), "message id");
            results.add(result);
        }
        dense(results);
        for (int i = 0; i < COUNT; i += 50) {
            resolvable(kit, results.get(i), "sync-" + i);
        }
    }

    private static void async(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        Queue<SendResult> results = new ConcurrentLinkedQueue<>();
        Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < COUNT; i++) {
            kit.producer().send(message(topic, "async-" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results.add(result);
                }

                @Override
                public void onException(Throwable e) {
                    errors.add(e);
                }
            }, 10_000);
        }
        Check.await(Check.SOON, "all callbacks", () -> results.size() + errors.size() == COUNT);
        Check.that(errors.isEmpty(), "async send failed: " + errors.peek());
        dense(results);
    }

    private static void oneway(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        TreeSet<String> sent = new TreeSet<>();
        for (int i = 0; i < COUNT; i++) {
            kit.producer().sendOneway(message(topic, "oneway-" + i));
            sent.add("oneway-" + i);
        }
        kit.awaitTotal(topic, QUEUES, COUNT);
        TreeSet<String> stored = new TreeSet<>();
        for (int i = 0; i < QUEUES; i++) {
            kit.read(topic, i).forEach(m -> stored.add(Kit.text(m)));
        }
        Check.equal(sent, stored, "bodies");
    }

    /** All stored, and in every queue the offsets are 0 to n-1, each given once. */
    private static void dense(Iterable<SendResult> results) {
        Map<Integer, List<Long>> offsets = new HashMap<>();
        for (SendResult result : results) {
            Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "send status");
            offsets.computeIfAbsent(result.getMessageQueue().getQueueId(), k -> new ArrayList<>())
                .add(result.getQueueOffset());
        }
        Check.equal(QUEUES, offsets.size(), "queues used");
        offsets.forEach((queue, given) -> {
            given.sort(null);
            for (int i = 0; i < given.size(); i++) {
                Check.equal((long) i, given.get(i), "offset in queue " + queue);
            }
        });
    }

    private static void resolvable(Kit kit, SendResult result, String body) throws Exception {
        MessageExt found = kit.producer().viewMessage(result.getMessageQueue().getTopic(), result.getOffsetMsgId());
        Check.equal(body, Kit.text(found), "body by offset id");
        Check.equal(result.getMsgId(), found.getMsgId(), "unique id");
        Check.equal(result.getQueueOffset(), found.getQueueOffset(), "queue offset");
        Check.equal(result.getMessageQueue().getQueueId(), found.getQueueId(), "queue id");
        Check.equal(kit.env.master().replaceAll(".*:", ""), "" + port(found), "port of the store host");
    }

    private static int port(MessageExt message) {
        return ((InetSocketAddress) message.getStoreHost()).getPort();
    }

    private static void autoCreate(Kit kit) throws Exception {
        autoCreate(kit, kit.producer(), 4);
        autoCreate(kit, kit.producer(p -> p.setDefaultTopicQueueNums(2)), 2);
        autoCreate(kit, kit.producer(p -> p.setDefaultTopicQueueNums(100)), 8);
    }

    private static void autoCreate(Kit kit, DefaultMQProducer producer, int queues) throws Exception {
        String topic = kit.name("auto");
        Check.equal(SendStatus.SEND_OK, producer.send(message(topic, "first")).getSendStatus(), "send status");
        QueueData created = kit.admin().examineTopicRouteInfo(topic).getQueueDatas().get(0);
        Check.equal(queues, created.getReadQueueNums(), "read queues");
        Check.equal(queues, created.getWriteQueueNums(), "write queues");
        Check.equal(6, created.getPerm(), "permission");
    }

    private static void illegalTopic(Kit kit) throws Exception {
        for (String topic : List.of("a b", "t".repeat(128), "SCHEDULE_TOPIC_XXXX")) {
            try {
                kit.producer().send(message(topic, "x"));
                throw new AssertionError("sent to " + topic);
            } catch (MQClientException refusedByTheClient) {
                Check.that(refusedByTheClient.getMessage() != null, "a reason");
            }
        }
        refused(kit, header("a b", 0), new byte[1], ResponseCode.INVALID_PARAMETER, "illegal");
        refused(kit, header("t".repeat(128), 0), new byte[1], ResponseCode.INVALID_PARAMETER, "");
        refused(kit, header("", 0), new byte[1], ResponseCode.INVALID_PARAMETER, "");
        for (String topic : List.of("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT")) {
            refused(kit, header(topic, 0), new byte[1], ResponseCode.NO_PERMISSION,
                "Sending message to topic[" + topic + "] is forbidden.");
        }
    }

    private static void sizeLimits(Kit kit) throws Exception {
        String topic = kit.topic(1);
        DefaultMQProducer producer = kit.producer(p -> {
            p.setMaxMessageSize(2 * BODY_LIMIT);
            p.setCompressMsgBodyOverHowmuch(2 * BODY_LIMIT);
            p.setSendMsgTimeout(10_000);
        });
        byte[] body = new byte[BODY_LIMIT];
        new Random(1).nextBytes(body);
        producer.send(new Message(topic, body));
        Check.fails(ResponseCode.MESSAGE_ILLEGAL, () -> producer.send(new Message(topic, new byte[BODY_LIMIT + 1])));
        Message wordy = message(topic, "x");
        wordy.putUserProperty("p", "v".repeat(32 << 10));
        Check.fails(ResponseCode.MESSAGE_ILLEGAL, () -> producer.send(wordy));
        Message full = message(topic, "x");
        full.putUserProperty("p", "v".repeat(31 << 10));
        producer.send(full);

        kit.awaitTotal(topic, 1, 2);
        List<MessageExt> stored = kit.read(topic, 0);
        Check.that(Arrays.equals(body, stored.get(0).getBody()), "4 MiB body comes back");
        Check.equal(31 << 10, stored.get(1).getUserProperty("p").length(), "length of the property");
    }

    private static void queueSelector(Kit kit) throws Exception {
        String topic = kit.topic(8);
        for (int i = 0; i < 64; i++) {
            SendResult result = kit.producer().send(message(topic, "m" + i),
                (queues, m, arg) -> queues.get((Integer) arg % queues.size()), i);
            Check.equal(i % 8, result.getMessageQueue().getQueueId(), "queue");
            Check.equal((long) i / 8, result.getQueueOffset(), "offset");
        }
    }

    private static void badQueueId(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String remark = Check.fails(ResponseCode.INVALID_PARAMETER,
            () -> kit.producer().send(message(topic, "x"), kit.queue(topic, QUEUES)));
        Check.contains("request queueId[" + QUEUES + "]", remark);
        RemotingCommand any = send(kit, header(topic, -1), new byte[1]);
        Check.equal(ResponseCode.SUCCESS, any.getCode(), "queue -1 is any queue");
        Check.between(0, QUEUES - 1, Long.parseLong(any.getExtFields().get("queueId")), "queue chosen");
    }

    private static void badRequests(Kit kit) throws Exception {
        Check.equal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, kit.call(9999, null, null).getCode(), "unknown code");
        for (int code : List.of(RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE,
                RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.VIEW_MESSAGE_BY_ID)) {
            int answer = kit.call(code, null, null).getCode();
            // Java dies of a NullPointerException, Castor names what is missing.
            Check.that(kit.env.castor ? answer != ResponseCode.SUCCESS : answer == ResponseCode.SYSTEM_ERROR,
                "code " + code + " without fields is answered " + answer);
        }
        String topic = kit.topic(1);
        Check.that(send(kit, header(topic, 0), null).getCode() != ResponseCode.SUCCESS, "no body is refused");
        Check.equal(0L, kit.max(topic, 0), "nothing stored");
    }

    static SendMessageRequestHeader header(String topic, int queueId) {
        SendMessageRequestHeader header = new SendMessageRequestHeader();
        header.setProducerGroup("interop-raw");
        header.setTopic(topic);
        header.setDefaultTopic("TBW102");
        header.setDefaultTopicQueueNums(4);
        header.setQueueId(queueId);
        header.setSysFlag(0);
        header.setBornTimestamp(System.currentTimeMillis());
        header.setFlag(0);
        header.setReconsumeTimes(0);
        header.setUnitMode(false);
        header.setBatch(false);
        return header;
    }

    /** A send that the client library would not make. */
    static RemotingCommand send(Kit kit, SendMessageRequestHeader header, byte[] body) throws Exception {
        int code = header.isBatch() ? RequestCode.SEND_BATCH_MESSAGE : RequestCode.SEND_MESSAGE_V2;
        return kit.call(code, SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(header), body);
    }

    private static void refused(Kit kit, SendMessageRequestHeader header, byte[] body, int code, String remark)
            throws Exception {
        RemotingCommand answer = send(kit, header, body);
        Check.equal(code, answer.getCode(), "code for topic \"" + header.getTopic() + "\"");
        Check.contains(remark, answer.getRemark());
    }
}
