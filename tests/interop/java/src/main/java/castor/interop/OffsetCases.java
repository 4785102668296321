package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.LongStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where consumers start, and the look-up of offsets by time. */
final class OffsetCases {
    static final List<Case> CASES = List.of(
        Case.shared("offset.new-group", OffsetCases::newGroup),
        Case.shared("offset.empty-queue", OffsetCases::emptyQueue),
        Case.shared("offset.commit", OffsetCases::commit),
        Case.shared("offset.beyond-end", OffsetCases::beyondEnd),
        Case.shared("offset.search", OffsetCases::search));

    private OffsetCases() {
    }

    static Inbox consume(Kit kit, String group, String topic, ConsumeFromWhere where) throws Exception {
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.setConsumeFromWhere(where);
            c.subscribe(topic, "*");
            c.registerMessageListener(inbox.accept());
        });
        return inbox;
    }

    /** A young queue is read from its beginning whatever the setting: nothing sent before the consumer is lost. */
    private static void newGroup(Kit kit) throws Exception {
        String topic = kit.topic(1);
        Set<String> sent = kit.send(topic, "m", 5);
        kit.awaitTotal(topic, 1, 5);
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)) {
            consume(kit, kit.name("group"), topic, where).await(Check.SOON, sent);
        }
    }

    private static void emptyQueue(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.name("group");
        Inbox last = consume(kit, group, topic, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        Check.await(Check.SOON, "group " + group + " online",
            () -> !kit.admin().examineConsumerConnectionInfo(group).getConnectionSet().isEmpty());
        last.await(Check.SOON, kit.send(topic, "m", 3));
    }

    /** A group goes on where it was. */
    private static void commit(Kit kit) throws Exception {
        String topic = kit.topic(4);
        String group = kit.name("group");
        Inbox first = new Inbox();
        DefaultMQPushConsumer consumer = kit.push(group, topic, first.accept());
        first.await(Check.SOON, kit.send(topic, "first", 40));
        consumer.shutdown();
        kit.awaitCommitted(group, topic, 4);
        Set<String> sent = kit.send(topic, "second", 40);
        Inbox second = new Inbox();
        kit.push(group, topic, second.accept());
        second.await(Check.SOON, sent);
        Check.equal(sent, second.distinct(), "messages after the restart of the consumer");
    }

    private static void beyondEnd(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        kit.send(topic, "old", 5);
        kit.awaitTotal(topic, 1, 5);
        kit.admin().updateConsumeOffset(kit.env.master(), group, kit.queue(topic, 0), 1005);
        Check.equal(1005L, kit.committed(group, topic, 0), "committed offset");
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.accept());
        Check.await(Check.SOON, "offset put right", () -> kit.committed(group, topic, 0) == 5);
        inbox.await(Check.SOON, kit.send(topic, "new", 3));
        Check.equal(3, inbox.size(), "messages received");
    }

    /** Both boundaries for every time around those stored, with runs of equal times from batches. */
    private static void search(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        for (int i = 0; i < 3; i++) {
            kit.producer().send(List.of(message(topic, "a"), message(topic, "b"), message(topic, "c")), queue);
            long time = System.currentTimeMillis();
            Check.await(Duration.ofSeconds(1), "the clock moves on", () -> System.currentTimeMillis() > time + 20);
        }
        kit.awaitTotal(topic, 1, 9);
        List<Long> times = kit.read(topic, 0).stream().map(MessageExt::getStoreTimestamp).toList();
        for (long time : times.stream().flatMapToLong(t -> LongStream.of(t - 1, t, t + 1)).toArray()) {
            long lower = times.stream().filter(t -> t < time).count();
            long upper = Math.max(0, times.stream().filter(t -> t <= time).count() - 1);
            String at = " at " + (time - times.get(0)) + " ms";
            Check.equal(lower, kit.admin().searchLowerBoundaryOffset(queue, time), "lower boundary" + at);
            Check.equal(upper, kit.admin().searchUpperBoundaryOffset(queue, time), "upper boundary" + at);
            Check.equal(lower, kit.admin().searchOffset(queue, time), "offset" + at);
        }
        Check.equal(9L, kit.env.reader.maxOffset(queue), "max offset");
        Check.equal(0L, kit.env.reader.minOffset(queue), "min offset");
        Check.equal(times.get(0), kit.env.reader.earliestMsgStoreTime(queue), "earliest time");
        Check.equal(0L, kit.max(topic, 77), "max offset of a queue that does not exist");
    }
}
