package castor.interop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/** Offsets moved by an administrator. */
final class ResetCases {
    static final List<Case> CASES = List.of(
        Case.shared("reset.online-past", ResetCases::onlinePast),
        Case.shared("reset.online-future", ResetCases::onlineFuture),
        Case.shared("reset.one-queue", ResetCases::oneQueue),
        Case.shared("reset.offline", ResetCases::offline),
        Case.shared("reset.clone", ResetCases::cloneOffsets));

    private static final int QUEUES = 2;
    private static final int COUNT = 20;
    /** A consumer learns of a reset with its next pull; one that is held ends after 15 s and the broker's sweep. */
    private static final Duration NEXT_PULL = Duration.ofSeconds(40);
    /** What the tools send for "the end". */
    private static final long END = -1;

    private ResetCases() {
    }

    private record Consumed(String topic, String group, Set<String> sent, Inbox inbox, DefaultMQPushConsumer consumer) {
    }

    /** A consumer that has consumed and committed everything in its topic. */
    private static Consumed consumed(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Set<String> sent = kit.send(topic, "m", COUNT);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = kit.push(group, topic, inbox.accept());
        inbox.await(Check.SOON, sent);
        kit.awaitCommitted(group, topic, QUEUES);
        inbox.clear();
        return new Consumed(topic, group, sent, inbox, consumer);
    }

    private static void onlinePast(Kit kit) throws Exception {
        Consumed c = consumed(kit);
        Map<MessageQueue, Long> offsets = kit.admin().resetOffsetByTimestamp(c.topic, c.group, 0, true);
        Check.equal(Map.of(kit.queue(c.topic, 0), 0L, kit.queue(c.topic, 1), 0L), offsets, "offsets");
        c.inbox.await(NEXT_PULL, c.sent);
        kit.awaitCommitted(c.group, c.topic, QUEUES);
        Check.equal(COUNT, c.inbox.size(), "messages consumed again");
    }

    private static void onlineFuture(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = kit.push(group, topic, inbox.accept());
        kit.awaitOwned(consumer, topic, QUEUES);
        consumer.suspend();
        kit.send(topic, "skipped", COUNT);
        kit.awaitTotal(topic, QUEUES, COUNT);
        kit.admin().resetOffsetByTimestamp(topic, group, END, true);
        kit.awaitCommitted(group, topic, QUEUES);
        consumer.resume();
        Set<String> fresh = kit.send(topic, "new", 4);
        inbox.await(Check.SOON, fresh);
        // What the client had pulled before the reset it may consume; after it the offsets are those of the reset.
        kit.awaitCommitted(group, topic, QUEUES);
    }

    private static void oneQueue(Kit kit) throws Exception {
        Consumed c = consumed(kit);
        long max = kit.max(c.topic, 1);
        kit.admin().resetOffsetByQueueId(kit.env.master(), c.group, c.topic, 1, max - 3);
        c.inbox.awaitCount(NEXT_PULL, 3);
        kit.awaitCommitted(c.group, c.topic, QUEUES);
        Check.equal(3, c.inbox.size(), "messages consumed again");
        c.inbox.all().forEach(r -> Check.equal(1, r.message().getQueueId(), "queue"));
    }

    private static void offline(Kit kit) throws Exception {
        Consumed c = consumed(kit);
        c.consumer.shutdown();
        kit.admin().resetOffsetByTimestamp(c.topic, c.group, 0, true);
        Inbox again = new Inbox();
        DefaultMQPushConsumer second = kit.push(c.group, c.topic, again.accept());
        again.await(Check.SOON, c.sent);
        kit.awaitCommitted(c.group, c.topic, QUEUES);
        second.shutdown();

        Set<String> skipped = kit.send(c.topic, "skipped", COUNT);
        kit.awaitTotal(c.topic, QUEUES, COUNT + skipped.size());
        kit.admin().resetOffsetNew(c.group, c.topic, END);
        Inbox fresh = new Inbox();
        kit.push(c.group, c.topic, fresh.accept());
        Set<String> sent = kit.send(c.topic, "new", 4);
        fresh.await(Check.SOON, sent);
        Check.equal(sent, fresh.distinct(), "messages after the reset to the end");
    }

    private static void cloneOffsets(Kit kit) throws Exception {
        Consumed c = consumed(kit);
        String clone = kit.name("clone");
        kit.admin().cloneGroupOffset(c.group, clone, c.topic, false);
        for (int i = 0; i < QUEUES; i++) {
            Check.equal(kit.max(c.topic, i), kit.committed(clone, c.topic, i), "offset of the clone in queue " + i);
        }
        Inbox inbox = new Inbox();
        kit.push(clone, c.topic, inbox.accept());
        Set<String> sent = kit.send(c.topic, "new", 4);
        inbox.await(Check.SOON, sent);
        Check.equal(sent, inbox.distinct(), "messages of the clone");
    }
}
