package castor.interop.wayback;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Compares a broker with a ledger. */
final class Reader {
    /** Messages of which this one is queried. */
    private static final int SAMPLE = 5;

    private final Clients clients;
    private final Ledger ledger;
    private final DefaultMQPullConsumer puller;

    Reader(Clients clients, Ledger ledger) throws Exception {
        this.clients = clients;
        this.ledger = ledger;
        puller = clients.puller("WaybackReader");
    }

    void everyMessage() throws Exception {
        for (Map.Entry<MessageQueue, List<Ledger.Entry>> queue : ledger.queues.entrySet()) {
            same(queue.getKey().toString(), queue.getValue(), Clients.pullAll(puller, queue.getKey(), "*").stream().map(Ledger.Entry::found).toList());
        }
        for (String topic : List.of("WaybackMany", "WaybackTags", "WaybackBatch")) {
            for (MessageQueue q : clients.queues(topic)) {
                expect(ledger.queues.containsKey(q) || clients.admin.maxOffset(q) == 0, "%s holds messages that nobody sent", q);
            }
        }
    }

    void byTag() throws Exception {
        for (MessageQueue q : clients.queues("WaybackTags")) {
            for (int i = 0; i < Plan.TAGS; i++) {
                String tag = "Tag" + i;
                same(q + " " + tag, ledger.queues.get(q).stream().filter(e -> e.tags().equals(tag)).toList(),
                    Clients.pullAll(puller, q, tag).stream().map(Ledger.Entry::found).toList());
            }
        }
    }

    void byKey() throws Exception {
        int n = 0;
        for (Ledger.Entry e : entries()) {
            if (n++ % SAMPLE != 0) {
                continue;
            }
            for (String key : e.keys().split(" ")) {
                List<MessageExt> found = clients.admin.queryMessage(e.topic(), key, 32, 0, Long.MAX_VALUE).getMessageList();
                same("key " + key, List.of(e), found.stream().map(Ledger.Entry::found).toList());
            }
        }
    }

    void byUniqueKey() throws Exception {
        int n = 0;
        for (Ledger.Entry e : entries()) {
            if (n++ % SAMPLE == 0) {
                same("id " + e.id(), List.of(e), List.of(Ledger.Entry.found(clients.admin.viewMessage(e.topic(), e.id()))));
            }
        }
    }

    private List<Ledger.Entry> entries() {
        return ledger.queues.values().stream().flatMap(List::stream).toList();
    }

    /** A consumer gets what lies behind its offsets, and nothing else. */
    void resumes() throws Exception {
        List<String> wanted = new ArrayList<>();
        for (Map.Entry<MessageQueue, Long> c : ledger.committed.entrySet()) {
            ledger.queues.get(c.getKey()).stream().filter(e -> e.offset() >= c.getValue()).forEach(e -> wanted.add(e.id()));
        }
        expect(committed().equals(ledger.committed), "the offsets are %s, committed were %s", committed(), ledger.committed);
        List<String> got = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = clients.push(Plan.HALF_GROUP, "WaybackMany", (messages, context) -> {
            messages.forEach(m -> got.add(m.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Clients.await("the rest of WaybackMany", () -> got.size() >= wanted.size());
        consumer.setAwaitTerminationMillisWhenShutdown(10_000); // for the listener to return, else its last message is not committed
        consumer.shutdown();
        sameSet("messages after the committed offsets", wanted, got);
        ledger.committed.replaceAll((q, offset) -> (long) ledger.queues.get(q).size());
        Clients.await("commit of what was consumed", () -> committed().equals(ledger.committed));
    }

    private Map<MessageQueue, Long> committed() throws Exception {
        DefaultMQPullConsumer consumer = clients.puller(Plan.HALF_GROUP);
        Map<MessageQueue, Long> offsets = new TreeMap<>();
        for (MessageQueue q : ledger.committed.keySet()) {
            offsets.put(q, Clients.committed(consumer, q));
        }
        consumer.shutdown(); // as long as it runs, queues are assigned to it
        return offsets;
    }

    /** Delayed messages are delivered once, by whichever broker ran when they were due; so are those to be consumed again. */
    void delayed() throws Exception {
        List<String> wanted = new ArrayList<>(ledger.delivered);
        wanted.addAll(ledger.pending);
        Clients.await("delayed messages", () -> bodies("WaybackDelay").size() >= wanted.size());
        sameSet("delayed messages", wanted, bodies("WaybackDelay"));
        sameSet("messages to consume again", ledger.retried, bodies("%RETRY%" + Plan.RETRY_GROUP));
    }

    /** What a consumer wanted later comes again, what it has done does not. */
    void retried() throws Exception {
        List<MessageExt> got = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = clients.push(Plan.RETRY_GROUP, "WaybackRetry", (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Clients.await("messages to consume again", () -> got.size() >= ledger.retried.size());
        consumer.shutdown();
        sameSet("messages consumed again", ledger.retried, got.stream().map(m -> new String(m.getBody(), UTF_8)).toList());
        for (MessageExt m : got) {
            expect(m.getReconsumeTimes() == 1 && m.getTopic().equals("WaybackRetry"), "consumed again: %s", m);
        }
    }

    void dead() throws Exception {
        sameSet("dead letters", ledger.dead, bodies("%DLQ%" + Plan.RETRY_GROUP));
    }

    private List<String> bodies(String topic) throws Exception {
        List<String> bodies = new ArrayList<>();
        for (MessageQueue q : clients.queues(topic)) {
            Clients.pullAll(puller, q, "*").forEach(m -> bodies.add(new String(m.getBody(), UTF_8)));
        }
        return bodies;
    }

    /** What is sent now lies behind what was there. */
    void goesOn() throws Exception {
        for (MessageQueue q : clients.queues("WaybackMany")) {
            long max = clients.admin.maxOffset(q);
            expect(max == ledger.queues.get(q).size(), "%s ends at %d", q, max);
            Message m = new Message(q.getTopic(), "new".getBytes(UTF_8));
            SendResult r = clients.producer.send(m, q);
            expect(r.getQueueOffset() == max, "%s: a new message has offset %d, want %d", q, r.getQueueOffset(), max);
            Clients.await("a new message in " + q, () -> clients.admin.maxOffset(q) == max + 1); // Java shows it a little later
            List<MessageExt> all = Clients.pullAll(puller, q, "*");
            expect(r.getMsgId().equals(all.get(all.size() - 1).getMsgId()), "%s does not end with the new message", q);
            ledger.add(q, max, r.getMsgId(), m);
        }
    }

    private static void expect(boolean holds, String format, Object... args) {
        if (!holds) {
            throw new AssertionError(String.format(format, args));
        }
    }

    private static <T> void same(String what, List<T> wanted, List<T> got) {
        expect(wanted.size() == got.size(), "%s: %d messages, want %d", what, got.size(), wanted.size());
        for (int i = 0; i < wanted.size(); i++) {
            expect(wanted.get(i).equals(got.get(i)), "%s: %s, want %s", what, got.get(i), wanted.get(i));
        }
    }

    private static void sameSet(String what, Collection<String> wanted, Collection<String> got) {
        expect(wanted.size() == got.size() && new TreeSet<>(wanted).equals(new TreeSet<>(got)), "%s: %s, want %s", what, got, wanted);
    }
}
