package castor.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.QueryMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ViewMessageRequestHeader;

/** Messages looked up by key, id and time. */
final class QueryCases {
    static final List<Case> CASES = List.of(
        Case.shared("query.key", QueryCases::key),
        Case.shared("query.key-collision", QueryCases::keyCollision),
        Case.shared("query.unique-key", QueryCases::uniqueKey),
        Case.shared("query.time-window", QueryCases::timeWindow),
        Case.shared("query.nothing", QueryCases::nothing));

    private static final int MAX = 64;

    private QueryCases() {
    }

    private static List<String> bodies(Kit kit, String topic, String key, long begin, long end) throws Exception {
        return kit.producer().queryMessage(topic, key, MAX, begin, end).getMessageList().stream()
            .map(Kit::text).sorted().toList();
    }

    /** Waits until the index gives exactly these messages for a key. */
    static void awaitKey(Kit kit, String topic, String key, List<String> bodies) throws Exception {
        Check.await(Check.SOON, bodies + " by key " + key,
            () -> bodies.equals(bodies(kit, topic, key, 0, Long.MAX_VALUE)));
    }

    private static Message keyed(String topic, String keys, String body) {
        return new Message(topic, "tag", keys, body.getBytes(UTF_8));
    }

    private static void key(Kit kit) throws Exception {
        String topic = kit.topic(2);
        String other = kit.topic(1);
        kit.send(keyed(topic, "k1 shared", "m1"));
        kit.send(keyed(topic, "k2 shared", "m2"));
        kit.send(keyed(other, "k1", "foreign"));
        awaitKey(kit, topic, "k1", List.of("m1"));
        awaitKey(kit, topic, "k2", List.of("m2"));
        awaitKey(kit, topic, "shared", List.of("m1", "m2"));
    }

    /** Two keys with the same hash: the index cannot tell them apart, the answer does. */
    private static void keyCollision(Kit kit) throws Exception {
        String topic = kit.topic(1);
        kit.send(keyed(topic, "Aa", "m-Aa"));
        kit.send(keyed(topic, "BB", "m-BB"));
        awaitKey(kit, topic, "Aa", List.of("m-Aa"));
        awaitKey(kit, topic, "BB", List.of("m-BB"));
    }

    private static void uniqueKey(Kit kit) throws Exception {
        String topic = kit.topic(1);
        SendResult sent = kit.send(keyed(topic, "k", "unique"));
        Check.await(Check.SOON, "message by its unique key", () ->
            Kit.text(kit.admin().viewMessage(topic, sent.getMsgId())).equals("unique"));
        MessageExt byOffsetId = kit.producer().viewMessage(topic, sent.getOffsetMsgId());
        Check.equal("unique", Kit.text(byOffsetId), "body by offset id");
        Check.equal(sent.getMsgId(), byOffsetId.getMsgId(), "unique id");
    }

    private static void timeWindow(Kit kit) throws Exception {
        String topic = kit.topic(1);
        kit.send(keyed(topic, "k", "early"));
        long between = System.currentTimeMillis() + 1500;
        // The index keeps whole seconds.
        Check.await(Check.SOON, "three seconds gone by", () -> System.currentTimeMillis() > between + 1500);
        kit.send(keyed(topic, "k", "late"));
        awaitKey(kit, topic, "k", List.of("early", "late"));
        Check.equal(List.of("early"), bodies(kit, topic, "k", 0, between), "before");
        Check.equal(List.of("late"), bodies(kit, topic, "k", between, Long.MAX_VALUE), "after");
        Check.fails(ResponseCode.NO_MESSAGE, () -> bodies(kit, topic, "k", 0, between - 3_600_000));
    }

    private static void nothing(Kit kit) throws Exception {
        String topic = kit.topic(1);
        SendResult sent = kit.send(keyed(topic, "k", "m"));
        Check.fails(ResponseCode.NO_MESSAGE, () -> bodies(kit, topic, "none", 0, Long.MAX_VALUE));
        QueryMessageRequestHeader query = new QueryMessageRequestHeader();
        query.setTopic(topic);
        query.setKey("none");
        query.setMaxNum(MAX);
        query.setBeginTimestamp(0L);
        query.setEndTimestamp(Long.MAX_VALUE);
        Check.equal(ResponseCode.QUERY_NOT_FOUND, kit.call(RequestCode.QUERY_MESSAGE, query, null).getCode(), "code");

        ViewMessageRequestHeader view = new ViewMessageRequestHeader();
        view.setOffset(Long.MAX_VALUE / 2);
        RemotingCommand answer = kit.call(RequestCode.VIEW_MESSAGE_BY_ID, view, null);
        Check.equal(ResponseCode.SYSTEM_ERROR, answer.getCode(), "code of a view beyond the log");
        Check.contains("can not find message by the offset", answer.getRemark());
        Check.that(sent.getOffsetMsgId() != null, "offset id");
    }
}
