package castor.interop;

import static castor.interop.Kit.message;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer. */
final class LitePullCases {
    static final List<Case> CASES = List.of(
        Case.shared("lite-pull.subscribe", LitePullCases::subscribe),
        Case.shared("lite-pull.assign", LitePullCases::assign),
        Case.shared("lite-pull.seek", LitePullCases::seek),
        Case.shared("lite-pull.commit", LitePullCases::commit));

    private LitePullCases() {
    }

    /** Polls until so many messages have come; returns their bodies in order. */
    private static List<String> poll(DefaultLitePullConsumer consumer, int count) throws Exception {
        List<String> bodies = new ArrayList<>();
        Check.await(Check.SOON, count + " messages polled", () -> {
            for (MessageExt m : consumer.poll(100)) {
                bodies.add(Kit.text(m));
            }
            return bodies.size() >= count;
        });
        return bodies;
    }

    private static void subscribe(Kit kit) throws Exception {
        String topic = kit.topic(4);
        String group = kit.name("group");
        Set<String> sent = kit.send(topic, "m", 40);
        DefaultLitePullConsumer consumer = kit.lite(group, c -> {
            c.subscribe(topic, "*");
            c.setAutoCommitIntervalMillis(1000);
        });
        Check.equal(sent, new TreeSet<>(poll(consumer, 40)), "bodies");
        Check.await(Check.SOON, "offsets committed by polling", () -> {
            consumer.poll(100);
            long committed = 0;
            for (int i = 0; i < 4; i++) {
                committed += kit.committed(group, topic, i);
            }
            return committed == 40;
        });
        consumer.shutdown();
        DefaultLitePullConsumer next = kit.lite(group, c -> c.subscribe(topic, "*"));
        kit.send(message(topic, "new"));
        Check.equal(List.of("new"), poll(next, 1), "bodies after a restart of the consumer");
    }

    private static void assign(Kit kit) throws Exception {
        String topic = kit.topic(2);
        kit.send(message(topic, "zero"), 0);
        kit.send(message(topic, "one"), 1);
        DefaultLitePullConsumer consumer = kit.lite(kit.name("group"), c -> { });
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        Check.equal(2, queues.size(), "queues");
        MessageQueue one = kit.queue(topic, 1);
        consumer.assign(List.of(one));
        Check.equal(List.of("one"), poll(consumer, 1), "bodies of queue 1");
        consumer.pause(List.of(one));
        kit.send(message(topic, "late"), 1);
        // The pull that was under way when the queue was paused may still bring one message.
        boolean underWay = !consumer.poll(1500).isEmpty();
        kit.send(message(topic, "paused"), 1);
        Check.that(consumer.poll(1500).isEmpty(), "nothing comes from a paused queue");
        consumer.resume(List.of(one));
        List<String> rest = underWay ? List.of("paused") : List.of("late", "paused");
        Check.equal(rest, poll(consumer, rest.size()), "bodies after resume");
    }

    private static void seek(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        for (int i = 0; i < 10; i++) {
            kit.send(message(topic, "m" + i), 0);
        }
        kit.awaitTotal(topic, 1, 10);
        DefaultLitePullConsumer consumer = kit.lite(kit.name("group"), c -> { });
        consumer.assign(List.of(queue));
        // First all of them: a pull under way at a seek may still bring what was asked for before, and at the end there is nothing to bring.
        Check.equal(10, poll(consumer, 10).size(), "bodies before the seek");
        consumer.seek(queue, 7);
        Check.equal(List.of("m7", "m8", "m9"), poll(consumer, 3), "bodies from 7");
        consumer.seekToBegin(queue);
        // A pull under way at a seek may still bring what was asked for before.
        Check.that(poll(consumer, 10).contains("m0"), "the first body comes after a seek to the beginning");
        consumer.seekToEnd(queue);
        kit.send(message(topic, "end"), 0);
        Check.equal(List.of("end"), poll(consumer, 1), "bodies from the end");
        List<MessageExt> stored = kit.read(topic, 0);
        long time = stored.get(4).getStoreTimestamp();
        long offset = consumer.offsetForTimestamp(queue, time);
        Check.that(offset <= 4 && stored.get((int) offset).getStoreTimestamp() == time, "offset for a timestamp");
    }

    private static void commit(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        String group = kit.name("group");
        for (int i = 0; i < 5; i++) {
            kit.send(message(topic, "m" + i), 0);
        }
        DefaultLitePullConsumer consumer = kit.lite(group, c -> c.setAutoCommit(false));
        consumer.assign(List.of(queue));
        poll(consumer, 5);
        Check.equal(0L, kit.committed(group, topic, 0), "committed before a commit");
        consumer.commit();
        Check.await(Check.SOON, "offset 5 committed", () -> kit.committed(group, topic, 0) == 5);
        Check.equal(5L, consumer.committed(queue), "committed after a commit");
        consumer.shutdown();
        kit.send(message(topic, "next"), 0);
        DefaultLitePullConsumer second = kit.lite(group, c -> { });
        second.assign(List.of(queue));
        Check.equal(List.of("next"), poll(second, 1), "bodies after a restart of the consumer");
    }
}
