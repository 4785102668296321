package castor.interop.wayback;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Gives a broker one of everything and notes what it acknowledged. */
final class Writer {
    private final Clients clients;
    private final Ledger ledger = new Ledger();
    private final Random random = new Random(5);

    private Writer(Clients clients) {
        this.clients = clients;
    }

    static Ledger write(Clients clients) throws Exception {
        Writer w = new Writer(clients);
        w.create();
        w.consumeInThreeWays();
        w.delay(Plan.SHORT, w.ledger.delivered);
        w.many("WaybackMany");
        w.many("WaybackTags");
        w.batches();
        w.commitHalf();
        Clients.await("delivery of the short delay", () -> w.count("WaybackDelay") == Plan.FEW);
        w.delay(Plan.LONG, w.ledger.pending);
        return w.ledger;
    }

    private void create() throws Exception {
        for (Map.Entry<String, Integer> topic : Plan.TOPICS.entrySet()) {
            clients.admin.createAndUpdateTopicConfig(clients.broker, new TopicConfig(topic.getKey(), topic.getValue(), topic.getValue(), 6));
        }
        for (String group : List.of(Plan.HALF_GROUP, Plan.RETRY_GROUP)) {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(group);
            clients.admin.createAndUpdateSubscriptionGroupConfig(clients.broker, config);
        }
        for (Map.Entry<String, Integer> topic : Plan.TOPICS.entrySet()) {
            Clients.await("route of " + topic.getKey(), () ->
                clients.admin.examineTopicRouteInfo(topic.getKey()).getQueueDatas().get(0).getReadQueueNums() == topic.getValue());
        }
    }

    /** Random bytes, one in ten of them long enough for the client to compress them. */
    private Message message(String topic, String key) {
        byte[] body = new byte[random.nextInt(10) == 0 ? 20_000 : 1 + random.nextInt(2000)];
        random.nextBytes(body);
        Message m = new Message(topic, "Tag" + random.nextInt(Plan.TAGS), key, body);
        if (random.nextInt(3) == 0) {
            m.setKeys(List.of(key, "second-" + key));
        }
        m.putUserProperty(Plan.SIZE, body.length + " Bytes ✓");
        return m;
    }

    private static SendResult stored(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new AssertionError(result.toString());
        }
        return result;
    }

    private void many(String topic) throws Exception {
        for (int i = 0; i < Plan.MESSAGES; i++) {
            Message m = message(topic, topic + "-" + i);
            SendResult r = stored(clients.producer.send(m));
            ledger.add(r.getMessageQueue(), r.getQueueOffset(), r.getMsgId(), m);
        }
    }

    private void batches() throws Exception {
        for (int i = 0; i < Plan.BATCHES; i++) {
            List<Message> batch = new ArrayList<>();
            for (int k = 0; k < Plan.BATCH; k++) {
                batch.add(message("WaybackBatch", "batch-" + i + "-" + k));
            }
            SendResult r = stored(clients.producer.send(batch));
            String[] ids = r.getMsgId().split(",");
            for (int k = 0; k < Plan.BATCH; k++) {
                ledger.add(r.getMessageQueue(), r.getQueueOffset() + k, ids[k], batch.get(k));
            }
        }
    }

    private void delay(int level, List<String> bodies) throws Exception {
        for (int i = 0; i < Plan.FEW; i++) {
            String body = "delay-" + level + "-" + i;
            Message m = new Message("WaybackDelay", body.getBytes(UTF_8));
            m.setDelayTimeLevel(level);
            stored(clients.producer.send(m));
            bodies.add(body);
        }
    }

    /** A consumer takes some messages, asks for some to come again after the long delay, and has some put away as dead. */
    private void consumeInThreeWays() throws Exception {
        for (String tag : List.of(Plan.GOOD, Plan.LATER, Plan.DEAD)) {
            for (int i = 0; i < Plan.FEW; i++) {
                stored(clients.producer.send(new Message("WaybackRetry", tag, (tag + i).getBytes(UTF_8))));
                if (!tag.equals(Plan.GOOD)) {
                    (tag.equals(Plan.LATER) ? ledger.retried : ledger.dead).add(tag + i);
                }
            }
        }
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = clients.push(Plan.RETRY_GROUP, "WaybackRetry", (messages, context) -> {
            MessageExt m = messages.get(0);
            seen.add(new String(m.getBody(), UTF_8));
            context.setDelayLevelWhenNextConsume(m.getTags().equals(Plan.DEAD) ? -1 : Plan.LONG);
            return m.getTags().equals(Plan.GOOD) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        Clients.await("consumption of WaybackRetry", () -> seen.size() == 3 * Plan.FEW);
        Clients.await("dead letters", () -> count("%DLQ%" + Plan.RETRY_GROUP) == Plan.FEW);
        DefaultMQPullConsumer puller = clients.puller(Plan.RETRY_GROUP);
        Clients.await("committed offsets of WaybackRetry", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            for (MessageQueue q : clients.queues("WaybackRetry")) {
                if (Clients.committed(puller, q) != clients.admin.maxOffset(q)) {
                    return false;
                }
            }
            return true;
        });
        consumer.shutdown();
    }

    private long count(String topic) throws Exception {
        long n = 0;
        for (MessageQueue q : clients.queues(topic)) {
            n += clients.admin.maxOffset(q);
        }
        return n;
    }

    private void commitHalf() throws Exception {
        DefaultMQPullConsumer consumer = clients.puller(Plan.HALF_GROUP);
        for (MessageQueue q : clients.queues("WaybackMany")) {
            long half = consumer.maxOffset(q) / 2;
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(q, half, false);
            ledger.committed.put(q, half);
        }
    }
}
