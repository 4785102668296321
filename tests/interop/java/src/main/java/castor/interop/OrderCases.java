package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** Orderly consumption. */
final class OrderCases {
    static final List<Case> CASES = List.of(
        Case.shared("order.three-consumers", OrderCases::threeConsumers),
        Case.shared("order.suspend", OrderCases::suspend),
        Case.shared("order.exhausted", OrderCases::exhausted));

    private static final int QUEUES = 8;
    private static final int KEYS = 16;

    private OrderCases() {
    }

    /** What several orderly consumers of one group have done. Bodies are {@code key:number}. */
    private static final class Log {
        private final Map<Integer, String> busy = new ConcurrentHashMap<>();
        private final List<String> overlaps = Collections.synchronizedList(new ArrayList<>());
        private final Inbox inbox = new Inbox();

        MessageListenerOrderly consumer(String name) {
            return (messages, context) -> {
                int queue = context.getMessageQueue().getQueueId();
                String other = busy.putIfAbsent(queue, name);
                if (other != null) {
                    overlaps.add(name + " and " + other + " in queue " + queue);
                }
                messages.forEach(inbox::add);
                busy.remove(queue);
                return ConsumeOrderlyStatus.SUCCESS;
            };
        }

        /** For each key the numbers in order of their first arrival. */
        Map<String, List<Integer>> firstArrivals() {
            Map<String, List<Integer>> order = new HashMap<>();
            for (String body : new LinkedHashSet<>(inbox.bodies())) {
                String[] parts = body.split(":");
                order.computeIfAbsent(parts[0], k -> new ArrayList<>()).add(Integer.parseInt(parts[1]));
            }
            return order;
        }
    }

    private static DefaultMQPushConsumer orderly(Kit kit, String group, String topic, MessageListenerOrderly listener)
            throws Exception {
        return kit.push(group, c -> {
            c.setAwaitTerminationMillisWhenShutdown(10_000);
            c.subscribe(topic, "*");
            c.registerMessageListener(listener);
        });
    }

    /** Sends one round: the next number of every key, to the queue of the key. */
    private static void sendRound(Kit kit, String topic, int number) throws Exception {
        for (int key = 0; key < KEYS; key++) {
            kit.send(message(topic, key + ":" + number), key % QUEUES);
        }
    }

    /** Consumers join and leave while messages flow: per key the order holds and no queue has two at a time. */
    private static void threeConsumers(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Log log = new Log();
        int rounds = 0;
        DefaultMQPushConsumer one = orderly(kit, group, topic, log.consumer("one"));
        for (; rounds < 10; rounds++) {
            sendRound(kit, topic, rounds);
        }
        DefaultMQPushConsumer two = orderly(kit, group, topic, log.consumer("two"));
        DefaultMQPushConsumer three = orderly(kit, group, topic, log.consumer("three"));
        Check.await(Check.SOON, "8 queues split 3, 3, 2", () -> {
            sendRound(kit, topic, number(kit, topic));
            Set<Integer> owned = new HashSet<>();
            int all = 0;
            for (DefaultMQPushConsumer c : List.of(one, two, three)) {
                int share = Kit.owned(c, topic).size();
                all += share;
                owned.addAll(share < 2 || share > 3 ? Set.of() : Kit.owned(c, topic).keySet());
            }
            return all == QUEUES && owned.size() == QUEUES;
        });
        two.shutdown();
        Check.await(Check.SOON, "8 queues split 4, 4", () -> {
            sendRound(kit, topic, number(kit, topic));
            return Kit.owned(one, topic).size() == 4 && Kit.owned(three, topic).size() == 4;
        });
        int total = number(kit, topic);
        // A lock that a leaving client could not give back is held for 60 s.
        Check.await(Duration.ofSeconds(70), "all messages consumed",
            () -> log.inbox.distinct().size() == total * KEYS);
        List<Integer> inOrder = IntStream.range(0, total).boxed().toList();
        log.firstArrivals().forEach((key, numbers) -> Check.equal(inOrder, numbers, "order of key " + key));
        Check.that(log.overlaps.isEmpty(), "two consumers in one queue: " + log.overlaps);
    }

    /** The number of complete rounds sent. Acknowledged sends may show in the queue a moment later. */
    private static int number(Kit kit, String topic) throws Exception {
        Check.await(Check.SOON, "whole rounds", () -> kit.total(topic, QUEUES) % KEYS == 0);
        return (int) (kit.total(topic, QUEUES) / KEYS);
    }

    /** A listener that suspends gets the same message again before any later one of the queue. */
    private static void suspend(Kit kit) throws Exception {
        String topic = kit.topic(1);
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        kit.push(kit.name("group"), c -> {
            c.setSuspendCurrentQueueTimeMillis(100);
            c.subscribe(topic, "*");
            c.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                MessageExt m = messages.get(0);
                seen.add(Kit.text(m) + m.getReconsumeTimes());
                return Kit.text(m).equals("bad") && m.getReconsumeTimes() < 2
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        });
        for (String body : List.of("a", "bad", "b")) {
            kit.send(message(topic, body));
        }
        Check.await(Check.SOON, "message after the bad one", () -> seen.contains("b0"));
        Check.equal(List.of("a0", "bad0", "bad1", "bad2", "b0"), List.copyOf(seen), "deliveries");
    }

    /** A message that fails too often goes to the dead letter queue, and the queue continues. */
    private static void exhausted(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.setSuspendCurrentQueueTimeMillis(100);
            c.setMaxReconsumeTimes(3);
            c.subscribe(topic, "*");
            c.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                inbox.add(messages.get(0));
                return Kit.text(messages.get(0)).equals("poison")
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        });
        for (String body : List.of("before", "poison", "after")) {
            kit.send(message(topic, body));
        }
        inbox.await(Check.SOON, Set.of("before", "poison", "after"));
        Check.equal(List.of("before", "poison", "poison", "poison", "poison", "after"), inbox.bodies(), "deliveries");
        MessageExt dead = kit.deadLetter(group);
        Check.equal("poison", Kit.text(dead), "body of the dead letter");
        Check.equal(inbox.all().get(1).message().getMsgId(), dead.getProperty("ORIGIN_MESSAGE_ID"),
            "id of the message in the dead letter");
    }
}
