package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/** Behaviour under other broker settings, changed while it runs and put back. */
final class ConfigCases {
    static final List<Case> CASES = List.of(
        Case.alone("config.no-sql", ConfigCases::noSql),
        Case.alone("config.log-deletion", ConfigCases::logDeletion),
        Case.alone("config.no-auto-create", ConfigCases::noAutoCreate));

    private static final int BIG = 3 << 20;
    /** Java begins to delete 60 s after its start. */
    private static final Duration DELETION = Duration.ofSeconds(90);

    private ConfigCases() {
    }

    private static void with(Kit kit, String key, String value, String normal, Check.Action action) throws Exception {
        set(kit, key, value);
        try {
            action.run();
        } finally {
            set(kit, key, normal);
        }
    }

    private static void set(Kit kit, String key, String value) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(key, value);
        kit.admin().updateBrokerConfig(kit.env.master(), properties);
        Check.equal(value, kit.admin().getBrokerConfig(kit.env.master()).getProperty(key), key);
    }

    /** Java does not create topics again when the setting is put back, so this case comes after all that need it. */
    private static void noAutoCreate(Kit kit) throws Exception {
        String topic = kit.name("never");
        with(kit, "autoCreateTopicEnable", "false", "true", () -> {
            String remark = Check.fails(ResponseCode.TOPIC_NOT_EXIST, () -> kit.producer().send(message(topic, "x")));
            Check.contains("topic[" + topic + "] not exist, apply first please!", remark);
        });
    }

    private static void noSql(Kit kit) throws Exception {
        String topic = kit.topic(1);
        with(kit, "enablePropertyFilter", "false", "true", () -> {
            String reason = Check.fails(ResponseCode.SYSTEM_ERROR, () -> kit.push(kit.name("group"), c -> {
                c.subscribe(topic, MessageSelector.bySql("a = 1"));
                c.registerMessageListener(new Inbox().accept());
            }));
            Check.contains("The broker does not support consumer to filter message by SQL92", reason);
        });
    }

    /**
     * When the oldest part of the log is deleted, a group that stood there goes on at the new minimum, and a new group
     * starts where its setting says, since the queue's beginning is gone.
     */
    private static void logDeletion(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        kit.send(message(topic, "gone"));
        fillSegments(kit, topic, 3);
        with(kit, "fileReservedTime", "0", "72", () -> {
            kit.admin().deleteExpiredCommitLogByAddr(kit.env.master());
            Check.await(DELETION, "beginning of the queue deleted", () -> kit.env.reader.minOffset(queue) > 0);
        });
        long min = kit.env.reader.minOffset(queue);
        PullResult tooSmall = kit.env.reader.pull(queue, "*", 0, 1);
        Check.equal(PullStatus.OFFSET_ILLEGAL, tooSmall.getPullStatus(), "status of a pull at 0");
        Check.that(tooSmall.getNextBeginOffset() >= min, "next offset is the minimum");

        String stood = kit.knownGroup(topic);
        kit.admin().updateConsumeOffset(kit.env.master(), stood, queue, 0);
        kit.send(message(topic, "kept"));
        Inbox old = OffsetCases.consume(kit, stood, topic, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        old.await(Duration.ofSeconds(40), Set.of("kept"));

        Inbox first = OffsetCases.consume(kit, kit.name("first"), topic, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        first.await(Duration.ofSeconds(40), Set.of("kept"));

        long start = System.currentTimeMillis() / 1000 * 1000 + 2000;
        Check.await(Check.SOON, "a second that begins", () -> System.currentTimeMillis() > start);
        kit.send(message(topic, "after"));
        Inbox byTime = new Inbox();
        kit.push(kit.name("time"), c -> {
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
            c.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(start));
            c.subscribe(topic, "*");
            c.registerMessageListener(byTime.accept());
        });
        byTime.await(Check.SOON, Set.of("after"));
        Check.equal(List.of("after"), byTime.bodies(), "messages since a point in time");

        Inbox fresh = new Inbox();
        DefaultMQPushConsumer last = kit.push(kit.name("last"), c -> {
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            c.subscribe(topic, "*");
            c.registerMessageListener(fresh.accept());
        });
        kit.awaitOwned(last, topic, 1);
        kit.send(message(topic, "new"));
        fresh.await(Check.SOON, Set.of("new"));
        Check.equal(List.of("new"), fresh.bodies(), "messages of a group that starts at the end");
    }

    /** Sends until the log has grown by so many of its 64 MiB segments. */
    private static void fillSegments(Kit kit, String topic, int segments) throws Exception {
        DefaultMQProducer producer = kit.producer(p -> {
            p.setCompressMsgBodyOverHowmuch(2 * BIG);
            p.setSendMsgTimeout(20_000);
        });
        byte[] body = new byte[BIG];
        new Random(1).nextBytes(body);
        for (long sent = 0; sent < (long) segments << 26; sent += BIG) {
            producer.send(new Message(topic, body));
        }
    }
}
