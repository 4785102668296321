package castor.interop;

import static castor.interop.Kit.message;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * A group of brokers whose master is killed under its clients. Each case prepares, goes through
 * {@link Kit#switchover} with all others, and checks. Nothing acknowledged may be lost, order is kept, and what was
 * committed stays committed.
 */
final class HaCases {
    static final List<Case> CASES = List.of(
        Case.shared("ha.send", HaCases::send),
        Case.shared("ha.batch", HaCases::batch),
        Case.shared("ha.delay", HaCases::delay),
        Case.shared("ha.fresh-topic-and-group", HaCases::fresh),
        Case.shared("ha.concurrent", HaCases::concurrent),
        Case.shared("ha.orderly", HaCases::orderly),
        Case.shared("ha.dead-letters", HaCases::deadLetters),
        Case.shared("ha.filters", HaCases::filters),
        Case.shared("ha.broadcast", HaCases::broadcast),
        Case.shared("ha.lite-pull", HaCases::litePull),
        Case.shared("ha.offsets", HaCases::offsets),
        Case.shared("ha.queries", HaCases::queries),
        Case.shared("ha.reply", HaCases::reply),
        Case.shared("ha.default-producer-kill", kit -> defaultProducer(kit, "kill", kit::switchover)),
        Case.alone("ha.default-producer-handover", kit -> defaultProducer(kit, "handover", () -> change(kit, "handover"))),
        Case.alone("ha.default-producer-stop", kit -> defaultProducer(kit, "stop", () -> change(kit, "stop"))));

    /** Long enough for a client to find the new master and to go on. */
    private static final Duration RECOVERY = Duration.ofSeconds(60);
    private static final int QUEUES = 4;

    private HaCases() {
    }

    /** Sends in every way; after the change each acknowledged message is where its answer said. */
    private static void send(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        Flow[] async = new Flow[1];
        List<Flow> flows = List.of(
            Flow.start(kit, "sync", false, body -> kit.producer().send(message(topic, body))),
            Flow.start(kit, "queue", false, body -> kit.producer().send(message(topic, body), kit.queue(topic, 1))),
            Flow.start(kit, "select", false, body -> kit.producer().send(message(topic, body),
                (queues, m, key) -> queues.get(Math.floorMod(key.hashCode(), queues.size())), body)),
            Flow.start(kit, "large", false, body -> kit.producer().send(large(topic, body))));
        async[0] = Flow.start(kit, "async", false, body -> {
            kit.producer().send(message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    async[0].acknowledged(body, result);
                }

                @Override
                public void onException(Throwable e) {
                    async[0].failed(e);
                }
            });
            return null;
        });
        Flow oneway = Flow.start(kit, "oneway", false, body -> {
            kit.producer().sendOneway(message(topic, body));
            return null;
        });
        List<Flow> all = new ArrayList<>(flows);
        all.add(async[0]);
        for (Flow flow : all) {
            flow.awaitMore(20);
        }
        kit.switchover();
        List<Flow.Sent> sent = new ArrayList<>();
        for (Flow flow : all) {
            flow.awaitMore(20);
        }
        for (Flow flow : all) {
            flow.end();
        }
        oneway.end();
        for (Flow flow : all) {
            sent.addAll(flow.sent());
        }
        Flow.checkStored(kit, topic, QUEUES, sent);
    }

    /** A message with properties of several packets. */
    private static Message large(String topic, String body) {
        char[] rest = new char[8 << 10];
        Arrays.fill(rest, 'x');
        Message m = new Message(topic, body.getBytes(UTF_8));
        m.putUserProperty("large", new String(rest));
        return m;
    }

    private static void batch(Kit kit) throws Exception {
        String topic = kit.topic(1);
        Flow[] self = new Flow[1];
        self[0] = Flow.start(kit, "batch", false, body -> {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                batch.add(message(topic, body + "." + i));
            }
            SendResult result = kit.producer().send(batch);
            List<Flow.Sent> sent = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                sent.add(new Flow.Sent(body + "." + i, result.getMessageQueue().getQueueId(), result.getQueueOffset() + i));
            }
            self[0].add(sent);
            return null;
        });
        self[0].awaitMore(100);
        kit.switchover();
        self[0].awaitMore(100);
        self[0].end();
        Flow.checkStored(kit, topic, 1, self[0].sent());
    }

    /** Delayed messages from before, during and after the change come, and not before their time. */
    private static void delay(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        Inbox inbox = new Inbox();
        kit.push(kit.name("group"), topic, inbox.accept());
        Flow flow = Flow.start(kit, "delayed", false, body -> {
            Message m = message(topic, body);
            m.setDelayTimeLevel(1 + body.length() % 3);
            return kit.producer().send(m);
        });
        flow.awaitMore(60);
        kit.switchover();
        flow.awaitMore(60);
        inbox.await(RECOVERY, flow.end());
        for (Inbox.Received r : inbox.all()) {
            int level = 1 + r.body().length() % 3;
            Check.that(r.atMs() - r.message().getBornTimestamp() > DelayCases.delayMs(level) - 50, r.body() + " came too early");
        }
    }

    /** What was made, changed and deleted a moment before. */
    private static void fresh(Kit kit) throws Exception {
        String deleted = kit.topic(1);
        String deletedGroup = kit.name("group");
        kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.brokerAddress, group(deletedGroup, 1));
        String changed = kit.topic(2);
        List<String> topics = new ArrayList<>();
        List<String> groups = new ArrayList<>();
        String group = kit.name("group");
        for (int i = 0; i < 20; i++) {
            topics.add(kit.name("fresh"));
            kit.setTopic(topics.get(i), 3, 6);
            groups.add(group + i);
            kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.brokerAddress, group(groups.get(i), 5 + i));
        }
        kit.setTopic(changed, 5, 6);
        kit.admin().deleteTopicInBroker(Set.of(kit.env.brokerAddress), deleted);
        kit.admin().deleteSubscriptionGroup(kit.env.brokerAddress, deletedGroup, true);
        kit.switchover();
        String master = kit.env.brokerAddress;
        for (int i = 0; i < 20; i++) {
            Check.equal(3, kit.admin().examineTopicConfig(master, topics.get(i)).getReadQueueNums(), "queues of a fresh topic");
            Check.equal(5 + i, kit.admin().examineSubscriptionGroupConfig(master, groups.get(i)).getRetryMaxTimes(), "retries of a fresh group");
        }
        Check.equal(5, kit.admin().examineTopicConfig(master, changed).getReadQueueNums(), "queues of a changed topic");
        Check.that(!kit.admin().getAllTopicConfig(master, 5000).getTopicConfigTable().containsKey(deleted), "a deleted topic is back");
        Check.that(!kit.admin().getAllSubscriptionGroup(master, 5000).getSubscriptionGroupTable().containsKey(deletedGroup),
            "a deleted group is back");
        String last = topics.get(19);
        Check.await(RECOVERY, "a message in a fresh topic", () -> kit.send(message(last, "x")) != null);
        Check.await(Check.SOON, "the route of a changed topic", () ->
            kit.admin().examineTopicRouteInfo(changed).getQueueDatas().get(0).getReadQueueNums() == 5);
    }

    private static SubscriptionGroupConfig group(String name, int retries) {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(name);
        config.setRetryMaxTimes(retries);
        return config;
    }

    /** Everything is consumed, commits never go back, and a consumer that starts again gets nothing it had committed. */
    private static void concurrent(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer one = kit.push(group, topic, inbox.accept());
        DefaultMQPushConsumer two = kit.push(group, topic, inbox.accept());
        Flow flow = Flow.start(kit, "m", false, body -> kit.producer().send(message(topic, body)));
        flow.awaitMore(50);
        inbox.awaitCount(Check.SOON, 50);
        long[] committed = new long[QUEUES];
        watch(kit, group, topic, committed);
        kit.switchover();
        long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
        while (System.nanoTime() < end) {
            watch(kit, group, topic, committed);
            Thread.sleep(50);
        }
        flow.awaitMore(50);
        inbox.await(RECOVERY, flow.end());
        kit.awaitCommitted(group, topic, QUEUES);
        one.shutdown();
        two.shutdown();
        inbox.clear();
        kit.push(group, topic, inbox.accept());
        Set<String> more = kit.send(topic, "more", 20);
        inbox.await(RECOVERY, more);
        Check.equal(more, inbox.distinct(), "bodies after a restart of the consumer");
    }

    /** Fails when an offset is less than it was. */
    private static void watch(Kit kit, String group, String topic, long[] committed) throws Exception {
        for (int i = 0; i < committed.length; i++) {
            long now;
            try {
                now = kit.committed(group, topic, i);
            } catch (Exception e) {
                continue; // the route still names the dead master
            }
            Check.that(now >= committed[i], "the offset of queue " + i + " went back from " + committed[i] + " to " + now);
            committed[i] = now;
        }
    }

    /** Two orderly consumers: per key the order holds, and no queue has two consumers at a time. */
    private static void orderly(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        Map<Integer, String> busy = new ConcurrentHashMap<>();
        List<String> overlaps = Collections.synchronizedList(new ArrayList<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String name : List.of("one", "two")) {
            consumers.add(kit.push(group, c -> {
                c.subscribe(topic, "*");
                c.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    int queue = context.getMessageQueue().getQueueId();
                    String other = busy.putIfAbsent(queue, name);
                    if (other != null) {
                        overlaps.add(name + " and " + other + " in queue " + queue);
                    }
                    messages.forEach(inbox::add);
                    busy.remove(queue);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
            }));
        }
        List<Flow> flows = new ArrayList<>();
        for (int key = 0; key < QUEUES; key++) {
            int queue = key;
            flows.add(Flow.start(kit, key + ":", true, body -> kit.producer().send(message(topic, body), kit.queue(topic, queue))));
        }
        for (Flow flow : flows) {
            flow.awaitMore(50);
        }
        Check.await(Check.SOON, "queues split 2, 2", () ->
            consumers.stream().allMatch(c -> Kit.owned(c, topic).size() == QUEUES / 2));
        inbox.awaitCount(Check.SOON, 100);
        kit.switchover();
        Set<String> sent = new TreeSet<>();
        for (Flow flow : flows) {
            flow.awaitMore(50);
        }
        for (Flow flow : flows) {
            sent.addAll(flow.end());
        }
        inbox.await(RECOVERY, sent);
        Map<String, Integer> next = new HashMap<>();
        for (String body : new LinkedHashSet<>(inbox.bodies())) {
            String[] parts = body.split(":");
            int number = Integer.parseInt(parts[1]);
            Check.equal(next.getOrDefault(parts[0], 0), number, "the next message of key " + parts[0]);
            next.put(parts[0], number + 1);
        }
        Check.that(overlaps.isEmpty(), "two consumers in one queue: " + overlaps);
    }

    /** What a consumer keeps failing on gets to the dead letters, all of it; the rest is consumed. */
    private static void deadLetters(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.setMaxReconsumeTimes(3);
            c.subscribe(topic, "*");
            c.registerMessageListener(inbox.listener(m -> !Kit.text(m).endsWith("7")));
        });
        Flow flow = Flow.start(kit, "m", false, body -> kit.producer().send(message(topic, body)));
        flow.awaitMore(100);
        kit.switchover();
        flow.awaitMore(50);
        Set<String> sent = flow.end();
        inbox.await(RECOVERY, sent);
        Set<String> poison = new TreeSet<>(sent);
        poison.removeIf(body -> !body.endsWith("7"));
        Check.await(RECOVERY, "all of " + poison.size() + " dead letters", () -> {
            Set<String> dead = new TreeSet<>();
            kit.read("%DLQ%" + group, 0).forEach(m -> dead.add(Kit.text(m)));
            return dead.equals(poison);
        });
    }

    /** Tags and SQL92, also for a consumer that comes after the change. */
    private static void filters(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        Map<MessageSelector, Predicate<String>> selectors = Map.of(
            MessageSelector.byTag("tag1 || tag2"), body -> body.matches(".*[12]"),
            MessageSelector.bySql("n > 5 AND TAGS <> 'tag9'"), body -> body.matches(".*[678]"));
        Map<Inbox, Predicate<String>> inboxes = new HashMap<>();
        for (var s : selectors.entrySet()) {
            inboxes.put(filtered(kit, topic, kit.name("group"), s.getKey()), s.getValue());
        }
        Flow flow = Flow.start(kit, "m", false, body -> {
            String digit = body.substring(body.length() - 1);
            Message m = new Message(topic, "tag" + digit, body.getBytes(UTF_8));
            m.putUserProperty("n", digit);
            return kit.producer().send(m);
        });
        flow.awaitMore(50);
        kit.switchover();
        flow.awaitMore(50);
        for (var s : selectors.entrySet()) {
            inboxes.put(filtered(kit, topic, kit.name("late"), s.getKey()), s.getValue());
        }
        Set<String> sent = flow.end();
        for (var e : inboxes.entrySet()) {
            Set<String> wanted = new TreeSet<>(sent);
            wanted.removeIf(e.getValue().negate());
            e.getKey().await(RECOVERY, wanted);
            Check.that(e.getKey().bodies().stream().allMatch(e.getValue()), "a message came that was not selected");
        }
    }

    private static Inbox filtered(Kit kit, String topic, String group, MessageSelector selector) throws Exception {
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.subscribe(topic, selector);
            c.registerMessageListener(inbox.accept());
        });
        return inbox;
    }

    /** Each broadcasting consumer gets everything, from the offsets that it keeps itself. */
    private static void broadcast(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (Inbox inbox : inboxes) {
            kit.push(group, c -> {
                c.setMessageModel(MessageModel.BROADCASTING);
                c.subscribe(topic, "*");
                c.registerMessageListener(inbox.accept());
            });
        }
        Flow flow = Flow.start(kit, "m", false, body -> kit.producer().send(message(topic, body)));
        flow.awaitMore(50);
        for (Inbox inbox : inboxes) {
            inbox.awaitCount(Check.SOON, 20);
        }
        kit.switchover();
        flow.awaitMore(50);
        Set<String> sent = flow.end();
        for (Inbox inbox : inboxes) {
            inbox.await(RECOVERY, sent);
            Map<String, Long> times = new HashMap<>();
            inbox.bodies().forEach(body -> times.merge(body, 1L, Long::sum));
            Check.that(times.values().stream().allMatch(n -> n == 1), "a broadcasting consumer got a message twice");
        }
    }

    private static void litePull(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        DefaultLitePullConsumer consumer = kit.lite(group, c -> {
            c.subscribe(topic, "*");
            c.setAutoCommitIntervalMillis(1000);
        });
        Flow flow = Flow.start(kit, "m", false, body -> kit.producer().send(message(topic, body)));
        Set<String> polled = new TreeSet<>();
        Check.await(Check.SOON, "messages polled", () -> poll(consumer, polled) >= 50);
        long[] committed = new long[QUEUES];
        watch(kit, group, topic, committed);
        kit.switchover();
        flow.awaitMore(50);
        Set<String> sent = flow.end();
        Check.await(RECOVERY, "all messages polled", () -> {
            poll(consumer, polled);
            watch(kit, group, topic, committed);
            return polled.containsAll(sent);
        });
        Check.await(RECOVERY, "everything committed", () -> {
            poll(consumer, polled);
            watch(kit, group, topic, committed);
            return Arrays.stream(committed).sum() == kit.total(topic, QUEUES);
        });
    }

    private static int poll(DefaultLitePullConsumer consumer, Set<String> bodies) {
        for (MessageExt m : consumer.poll(100)) {
            bodies.add(Kit.text(m));
        }
        return bodies.size();
    }

    /** Offsets that were committed and reset a moment before. */
    private static void offsets(Kit kit) throws Exception {
        String topic = kit.topic(2);
        String committed = kit.name("committed");
        String reset = kit.name("reset");
        kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.brokerAddress, group(committed, 1));
        kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.brokerAddress, group(reset, 1));
        DefaultMQPullConsumer first = kit.pull(committed, c -> { });
        DefaultMQPullConsumer second = kit.pull(reset, c -> { });
        for (int i = 0; i < 20; i++) {
            kit.send(message(topic, "m" + i), i % 2);
        }
        MessageQueue zero = kit.queue(topic, 0);
        MessageQueue one = kit.queue(topic, 1);
        commit(second, zero, 10);
        commit(second, one, 10);
        for (long i = 1; i <= 7; i++) {
            commit(first, zero, i);
        }
        kit.admin().resetOffsetByTimestamp(topic, reset, 0, true);
        kit.switchover();
        Check.await(RECOVERY, "a committed offset", () -> kit.committed(committed, topic, 0) == 7);
        Check.await(RECOVERY, "offsets that were reset", () ->
            kit.committed(reset, topic, 0) == 0 && kit.committed(reset, topic, 1) == 0);
        Check.await(RECOVERY, "the new master in the reader's route", () -> kit.max(topic, 1) == 10);
        Check.equal(0L, kit.env.reader.minOffset(zero), "min offset");
        Check.equal(0L, kit.env.reader.searchOffset(zero, 0), "offset by time");
        Check.that(kit.env.reader.earliestMsgStoreTime(zero) > 0, "earliest store time");
    }

    /** Commits at once, and waits for the answer. */
    private static void commit(DefaultMQPullConsumer consumer, MessageQueue queue, long offset) throws Exception {
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
    }

    private static void queries(Kit kit) throws Exception {
        String topic = kit.topic(2);
        SendResult before = kit.send(keyed(topic, "before"));
        kit.switchover();
        Check.await(RECOVERY, "a message by its unique key", () ->
            Kit.text(kit.admin().viewMessage(topic, before.getMsgId())).equals("before"));
        Check.await(RECOVERY, "a message by its key", () -> kit.producer().queryMessage(topic, "key-before", 8, 0, Long.MAX_VALUE)
            .getMessageList().stream().map(Kit::text).toList().equals(List.of("before")));
        SendResult[] after = new SendResult[1];
        Check.await(RECOVERY, "a send", () -> (after[0] = kit.send(keyed(topic, "after"))) != null);
        Check.equal("after", Kit.text(kit.producer().viewMessage(topic, after[0].getOffsetMsgId())), "body by offset id");
        Check.equal("after", Kit.text(kit.admin().viewMessage(topic, after[0].getMsgId())), "body by unique key");
    }

    private static Message keyed(String topic, String body) {
        return new Message(topic, "tag", "key-" + body, body.getBytes(UTF_8));
    }

    /** Requests get their replies again after the change. */
    private static void reply(Kit kit) throws Exception {
        String topic = kit.topic(2);
        DefaultMQProducer responder = kit.producer(p -> { });
        DefaultMQProducer requester = kit.producer(p -> { });
        kit.push(kit.name("group"), topic, new Inbox().listener(m -> {
            try {
                responder.send(MessageUtil.createReplyMessage(m, ("re: " + Kit.text(m)).getBytes(UTF_8)));
                return true;
            } catch (Exception e) {
                return false;
            }
        }));
        Check.await(RECOVERY, "a reply", () -> Kit.text(requester.request(message(topic, "a"), 5000)).equals("re: a"));
        kit.switchover();
        Check.await(RECOVERY, "a reply of the new master's clients", () ->
            Kit.text(requester.request(message(topic, "b"), 5000)).equals("re: b"));
    }

    /**
     * What a producer with default settings sees of a change: four threads, a hundred sends a second each. The figures are
     * printed; that nothing acknowledged is lost is checked.
     */
    private static void defaultProducer(Kit kit, String name, Check.Action change) throws Exception {
        if (kit.env.switchover == null) {
            change(kit, "alone");
        }
        String topic = kit.topic(QUEUES);
        DefaultMQProducer producer = new DefaultMQProducer(kit.name("producer"));
        producer.setNamesrvAddr(kit.env.namesrv);
        producer.setInstanceName(kit.name("default"));
        producer.start();
        kit.closing(producer::shutdown);
        List<Flow> flows = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            flows.add(Flow.start(kit, i + "-", Duration.ofMillis(10), body -> producer.send(message(topic, body))));
        }
        for (Flow flow : flows) {
            flow.awaitMore(100);
        }
        AckWatch watch = new AckWatch(flows);
        int failed = failures(flows);
        change.run();
        Check.await(FIGURES_LIMIT, "acknowledgements for two seconds again", () -> watch.steadyFor(2000));
        for (Flow flow : flows) {
            flow.close();
        }
        failed = failures(flows) - failed;
        List<Flow.Sent> sent = new ArrayList<>();
        for (Flow flow : flows) {
            flow.end();
            sent.addAll(flow.sent());
        }
        System.out.printf("# %s: %d sends acknowledged, %d failed, at most %d ms without an acknowledgement%n", name, sent.size(), failed, watch.longestMs());
        Check.await(RECOVERY, "the new master in the reader's route", () -> kit.max(topic, 0) > 0);
        Flow.checkStored(kit, topic, QUEUES, sent);
    }

    private static void change(Kit kit, String what) throws Exception {
        kit.env.brokerAddress = Switchover.ask(what);
    }

    /** A client that keeps a dead address finds another one with its route poll, every 30 s, and a hung one costs 3 s a send. */
    private static final Duration FIGURES_LIMIT = Duration.ofSeconds(100);

    private static int failures(List<Flow> flows) {
        return flows.stream().mapToInt(f -> f.failures.get()).sum();
    }

    /** Watches how long no thread got an acknowledgement. */
    private static final class AckWatch {
        private final List<Flow> flows;
        private long longestMs;
        private long quietAt = System.nanoTime();

        AckWatch(List<Flow> flows) {
            this.flows = flows;
        }

        /** To be called often: whether all threads have been acknowledged lately, for so long. */
        boolean steadyFor(long ms) {
            longestMs = Math.max(longestMs, flows.stream().mapToLong(Flow::sinceLastMs).min().orElse(0));
            if (flows.stream().anyMatch(f -> f.sinceLastMs() > 500)) {
                quietAt = System.nanoTime();
            }
            return System.nanoTime() - quietAt > ms * 1_000_000;
        }

        long longestMs() {
            return longestMs;
        }
    }
}
