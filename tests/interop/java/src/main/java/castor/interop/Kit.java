package castor.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one case works with. Names are fresh, and clients that it makes are shut down at the case's end. */
final class Kit implements AutoCloseable {
    private static final long CALL_MS = 10_000;

    interface Setup<T> {
        void on(T client) throws Exception;
    }

    final Env env;
    private final Deque<Runnable> closers = new ArrayDeque<>();
    private final List<DefaultMQPushConsumer> pushConsumers = new CopyOnWriteArrayList<>();
    private boolean met;

    Kit(Env env) {
        this.env = env;
    }

    DefaultMQAdminExt admin() {
        return env.admin;
    }

    DefaultMQProducer producer() {
        return env.producer;
    }

    /** Waits until all cases have come so far and the master has been killed and replaced. */
    void switchover() throws Exception {
        met = true;
        env.switchover.meet();
    }

    /** Has something closed at the case's end. */
    <T extends AutoCloseable> T closing(T thing) {
        closers.push(() -> {
            try {
                thing.close();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        return thing;
    }

    /** A name that nothing else uses. */
    String name(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    /** A new topic that the name server knows. */
    String topic(int queues) throws Exception {
        String topic = name("topic");
        createTopic(topic, queues);
        return topic;
    }

    void createTopic(String topic, int queues) throws Exception {
        setTopic(topic, queues, 6);
        Check.await(Check.SOON, "route of " + topic, () ->
            admin().examineTopicRouteInfo(topic).getQueueDatas().get(0).getReadQueueNums() == queues);
    }

    void setTopic(String topic, int queues, int perm) throws Exception {
        TopicConfig config = new TopicConfig(topic, queues, queues, perm);
        if (env.turmoil) {
            Check.await(Check.SOON, "the creation of a topic", () -> {
                admin().createAndUpdateTopicConfig(env.master(), config);
                return true;
            });
        } else {
            admin().createAndUpdateTopicConfig(env.brokerAddress, config);
        }
    }

    MessageQueue queue(String topic, int id) {
        return new MessageQueue(topic, env.brokerName, id);
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(UTF_8));
    }

    static String text(Message message) {
        return new String(message.getBody(), UTF_8);
    }

    /** Sends messages with bodies {@code prefix0} to {@code prefixN-1}, and returns the bodies. */
    Set<String> send(String topic, String prefix, int count) throws Exception {
        Set<String> bodies = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            send(message(topic, prefix + i));
            bodies.add(prefix + i);
        }
        return bodies;
    }

    SendResult send(Message message) throws Exception {
        return stored(producer().send(message));
    }

    SendResult send(Message message, int queueId) throws Exception {
        return stored(producer().send(message, queue(message.getTopic(), queueId)));
    }

    private static SendResult stored(SendResult result) {
        Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "send status");
        return result;
    }

    DefaultMQProducer producer(Setup<DefaultMQProducer> setup) throws Exception {
        DefaultMQProducer producer = env.configure(new DefaultMQProducer(name("producer")));
        setup.on(producer);
        producer.start();
        closers.push(producer::shutdown);
        return producer;
    }

    /**
     * A group that the broker has met before. A client finds the retry topic of a new group only with its second
     * rebalance, 20 s after its start; of a known group at once.
     */
    String knownGroup(String topic) throws Exception {
        String group = name("group");
        DefaultMQPushConsumer first = push(group, topic, new Inbox().accept());
        Check.await(Check.SOON, "retry topic of " + group, () ->
            admin().examineTopicRouteInfo("%RETRY%" + group).getQueueDatas().get(0).getReadQueueNums() > 0);
        first.shutdown();
        return group;
    }

    /** A push consumer that starts at the first offset, if it is new, and takes every tag. */
    DefaultMQPushConsumer push(String group, String topic, MessageListenerConcurrently listener) throws Exception {
        return push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(listener);
        });
    }

    DefaultMQPushConsumer push(String group, Setup<DefaultMQPushConsumer> setup) throws Exception {
        DefaultMQPushConsumer consumer = env.configure(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        setup.on(consumer);
        consumer.start();
        closers.push(consumer::shutdown);
        pushConsumers.add(consumer);
        return consumer;
    }

    DefaultMQPullConsumer pull(String group, Setup<DefaultMQPullConsumer> setup) throws Exception {
        DefaultMQPullConsumer consumer = env.configure(new DefaultMQPullConsumer(group));
        setup.on(consumer);
        consumer.start();
        closers.push(consumer::shutdown);
        return consumer;
    }

    DefaultLitePullConsumer lite(String group, Setup<DefaultLitePullConsumer> setup) throws Exception {
        DefaultLitePullConsumer consumer = env.configure(new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        setup.on(consumer);
        consumer.start();
        closers.push(consumer::shutdown);
        return consumer;
    }

    /** The first offset after what a queue holds. */
    long max(String topic, int queueId) throws Exception {
        return env.reader.maxOffset(queue(topic, queueId));
    }

    /** The number of messages that a topic of so many queues has taken. */
    long total(String topic, int queues) throws Exception {
        long total = 0;
        for (int i = 0; i < queues; i++) {
            total += max(topic, i);
        }
        return total;
    }

    /** Waits until a topic holds so many messages. */
    void awaitTotal(String topic, int queues, long count) throws Exception {
        Check.await(Check.SOON, count + " messages in " + topic, () -> total(topic, queues) == count);
    }

    /** All messages of a queue. */
    List<MessageExt> read(String topic, int queueId) throws Exception {
        MessageQueue queue = queue(topic, queueId);
        List<MessageExt> messages = new ArrayList<>();
        for (long offset = env.reader.minOffset(queue); offset < env.reader.maxOffset(queue); ) {
            PullResult result = env.reader.pull(queue, "*", offset, 32, CALL_MS);
            Check.equal(PullStatus.FOUND, result.getPullStatus(), "pull of " + queue + " at " + offset);
            messages.addAll(result.getMsgFoundList());
            offset = result.getNextBeginOffset();
        }
        return messages;
    }

    /** The only message in the dead letter queue of a group, once it is there. */
    MessageExt deadLetter(String group) throws Exception {
        String topic = "%DLQ%" + group;
        Check.await(Check.SOON, "a message in " + topic, () -> max(topic, 0) > 0);
        List<MessageExt> dead = read(topic, 0);
        Check.equal(1, dead.size(), "messages in " + topic);
        return dead.get(0);
    }

    /** The offset that a group has committed for a queue; 0 if it has none. */
    long committed(String group, String topic, int queueId) throws Exception {
        ConsumeStats stats = admin().examineConsumeStats(group, topic);
        return stats.getOffsetTable().get(queue(topic, queueId)).getConsumerOffset();
    }

    /**
     * Waits until a group has committed all that the queues of a topic hold. Its push consumers are told to commit now:
     * by themselves they begin 10 s after their start.
     */
    void awaitCommitted(String group, String topic, int queues) throws Exception {
        for (int i = 0; i < queues; i++) {
            int id = i;
            long max = max(topic, id);
            Check.await(Check.SOON, "offset " + max + " committed by " + group + " in queue " + id, () -> {
                pushConsumers.stream().filter(c -> c.getConsumerGroup().equals(group))
                    .forEach(c -> c.getDefaultMQPushConsumerImpl().persistConsumerOffset());
                return committed(group, topic, id) == max;
            });
        }
    }

    /** The queues that a running push consumer owns. */
    static Map<Integer, MessageQueue> owned(DefaultMQPushConsumer consumer, String topic) {
        Map<Integer, MessageQueue> owned = new TreeMap<>();
        consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(q -> q.getTopic().equals(topic)).forEach(q -> owned.put(q.getQueueId(), q));
        return owned;
    }

    void awaitOwned(DefaultMQPushConsumer consumer, String topic, int queues) throws InterruptedException {
        Check.await(Check.SOON, queues + " queues of " + topic + " owned",
            () -> owned(consumer, topic).size() == queues);
    }

    /** Sends a request to the broker as it is, and returns the answer. */
    RemotingCommand call(int code, CommandCustomHeader header, byte[] body) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, header);
        request.setBody(body);
        return env.remoting.invokeSync(env.master(), request, CALL_MS);
    }

    @Override
    public void close() {
        if (!met && env.switchover != null) {
            env.switchover.leave();
        }
        while (!closers.isEmpty()) {
            closers.pop().run();
        }
    }
}
