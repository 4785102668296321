package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.function.ToIntFunction;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** What becomes of messages that a concurrent consumer fails on. */
final class RetryCases {
    static final List<Case> CASES = List.of(
        Case.shared("retry.ladder", RetryCases::ladder),
        Case.shared("retry.delay-level", RetryCases::delayLevel),
        Case.shared("retry.dead-at-once", RetryCases::deadAtOnce),
        Case.shared("retry.max-reconsume-times", RetryCases::maxReconsumeTimes),
        Case.shared("retry.send-back-by-pull", RetryCases::sendBackByPull),
        Case.shared("retry.no-queues", RetryCases::noQueues),
        Case.shared("retry.more-queues", RetryCases::moreQueues));

    private static final int DEFAULT_MAX = 16;
    /** The level of the first retry; each further one takes the next level. */
    private static final int FIRST_LEVEL = 3;

    private RetryCases() {
    }

    private static void ladder(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.listener(m -> false));
        SendResult sent = kit.send(message(topic, "poison"));

        inbox.awaitCount(Duration.ofSeconds(90), DEFAULT_MAX + 1);
        MessageExt dead = kit.deadLetter(group);
        List<Inbox.Received> all = inbox.all();
        Check.equal(DEFAULT_MAX + 1, all.size(), "deliveries");
        for (int i = 0; i < all.size(); i++) {
            MessageExt m = all.get(i).message();
            Check.equal(i, m.getReconsumeTimes(), "reconsume times");
            Check.equal("poison", Kit.text(m), "body");
            Check.equal(sent.getMsgId(), m.getMsgId(), "unique id");
            Check.equal(topic, m.getTopic(), "topic that the listener sees");
            if (i > 0) {
                long gap = all.get(i).atMs() - all.get(i - 1).atMs();
                long level = DelayCases.delayMs(FIRST_LEVEL + i - 1);
                Check.between(level - 50, level + 3000, gap, "ms before retry " + i);
            }
        }
        Check.equal("poison", Kit.text(dead), "body of the dead letter");
        Check.equal(sent.getMsgId(), dead.getMsgId(), "unique id of the dead letter");
        Check.equal(topic, dead.getProperty("RETRY_TOPIC"), "original topic of the dead letter");
        Check.equal(sent.getOffsetMsgId(), dead.getProperty("ORIGIN_MESSAGE_ID"), "original id of the dead letter");
        Check.equal(DEFAULT_MAX + 1, dead.getReconsumeTimes(), "reconsume times of the dead letter");
    }

    /** A listener that collects, succeeds with every retry, and sends the first attempt back at the level given. */
    static MessageListenerConcurrently sendBack(Inbox inbox, ToIntFunction<MessageExt> level) {
        return (messages, context) -> {
            MessageExt m = messages.get(0);
            inbox.add(m);
            context.setDelayLevelWhenNextConsume(level.applyAsInt(m));
            return m.getReconsumeTimes() > 0
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        };
    }

    private static void delayLevel(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(sendBack(inbox, m -> Integer.parseInt(Kit.text(m))));
        });
        for (int level : List.of(1, 2, 3)) {
            inbox.clear();
            kit.send(message(topic, "" + level));
            inbox.awaitCount(Check.SOON, 2);
            long gap = inbox.all().get(1).atMs() - inbox.all().get(0).atMs();
            Check.between(DelayCases.delayMs(level) - 50, DelayCases.delayMs(level) + 950, gap,
                "ms before the retry at level " + level);
        }
        Check.that(kit.max("%DLQ%" + group, 0) == 0, "no dead letter");
    }

    private static void deadAtOnce(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(sendBack(inbox, m -> -1));
        });
        SendResult sent = kit.send(message(topic, "dead"));
        MessageExt dead = kit.deadLetter(group);
        Check.equal(sent.getMsgId(), dead.getMsgId(), "unique id");
        Check.equal(6, kit.admin().examineTopicConfig(kit.env.master(), "%DLQ%" + group).getPerm(), "permission");
        Check.holds(Duration.ofSeconds(2), "one delivery only", () -> inbox.size() == 1);
    }

    private static void maxReconsumeTimes(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.setMaxReconsumeTimes(1);
            c.subscribe(topic, "*");
            c.registerMessageListener(inbox.listener(m -> false));
        });
        kit.send(message(topic, "twice"));
        inbox.awaitCount(Check.SOON, 2);
        Check.equal(2, kit.deadLetter(group).getReconsumeTimes(), "reconsume times of the dead letter");
        Check.equal(2, inbox.size(), "deliveries");
    }

    /** A pull consumer sends a message back by hand; a push consumer of the group gets it. */
    private static void sendBackByPull(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        SendResult sent = kit.send(message(topic, "back"));
        kit.awaitTotal(topic, 1, 1);
        DefaultMQPullConsumer consumer = kit.pull(group, c -> { });
        PullResult result = consumer.pull(kit.queue(topic, 0), "*", 0, 32);
        consumer.sendMessageBack(result.getMsgFoundList().get(0), 1, kit.env.brokerName, group);
        consumer.updateConsumeOffset(kit.queue(topic, 0), 1);
        consumer.persist(kit.queue(topic, 0));
        Check.await(Check.SOON, "offset committed", () -> kit.committed(group, topic, 0) == 1);
        consumer.shutdown();
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.accept());
        inbox.awaitCount(Check.SOON, 1);
        MessageExt again = inbox.all().get(0).message();
        Check.equal(sent.getMsgId(), again.getMsgId(), "unique id");
        Check.equal(1, again.getReconsumeTimes(), "reconsume times");
        Check.equal(topic, again.getTopic(), "topic");
    }

    private static void group(Kit kit, String group, int retryQueues) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        config.setRetryQueueNums(retryQueues);
        kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.master(), config);
    }

    /** A group without retry queues drops what it fails on, and the client is told that all is well. */
    private static void noQueues(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        group(kit, group, 0);
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(sendBack(inbox, m -> 1));
        });
        kit.send(message(topic, "dropped"));
        inbox.awaitCount(Check.SOON, 1);
        kit.awaitCommitted(group, topic, 1);
        Check.holds(Duration.ofSeconds(3), "no retry", () -> inbox.size() == 1);
        Check.equal(0L, kit.max("%DLQ%" + group, 0), "dead letters");
    }

    /** After a group got more retry queues, every retry still arrives. */
    private static void moreQueues(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.name("group");
        group(kit, group, 2);
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.accept()).shutdown();
        Check.equal(2, kit.admin().examineTopicConfig(kit.env.master(), "%RETRY%" + group).getReadQueueNums(),
            "retry queues");
        if (kit.env.castor) {
            // Java leaves the topic as it is, and puts retries into queues that nobody reads.
            group(kit, group, 4);
        }
        Set<String> sent = kit.send(topic, "m", 24);
        kit.push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(sendBack(inbox, m -> 1));
        });
        Check.await(Check.SOON, "24 retries", () ->
            inbox.all().stream().filter(r -> r.message().getReconsumeTimes() == 1).count() == sent.size());
    }
}
