package castor.interop.wayback;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.UUID;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Clients of one broker. All are shut down at the end. */
final class Clients implements AutoCloseable {
    private static final int CALL_MS = 15_000;
    private static final long WAIT_MS = 60_000;
    private static final int PULL = 32;

    interface Condition {
        boolean holds() throws Exception;
    }

    final String broker;
    final DefaultMQAdminExt admin;
    final DefaultMQProducer producer;
    private final String namesrv;
    private final Deque<Runnable> closers = new ArrayDeque<>();

    Clients(String namesrv, String broker) throws Exception {
        this.namesrv = namesrv;
        this.broker = broker;
        admin = configure(new DefaultMQAdminExt(CALL_MS));
        admin.start();
        closers.push(admin::shutdown);
        producer = configure(new DefaultMQProducer("WaybackProducer"));
        producer.setSendMsgTimeout(CALL_MS);
        producer.start();
        closers.push(producer::shutdown);
    }

    private <T extends ClientConfig> T configure(T client) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(UUID.randomUUID().toString());
        client.setMqClientApiTimeout(CALL_MS);
        return client;
    }

    DefaultMQPullConsumer puller(String group) throws MQClientException {
        DefaultMQPullConsumer consumer = configure(new DefaultMQPullConsumer(group));
        consumer.start();
        closers.push(consumer::shutdown);
        return consumer;
    }

    DefaultMQPushConsumer push(String group, String topic, MessageListenerConcurrently listener) throws MQClientException {
        DefaultMQPushConsumer consumer = configure(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        closers.push(consumer::shutdown);
        return consumer;
    }

    /** The queues of a topic that can be read. */
    List<MessageQueue> queues(String topic) throws Exception {
        return new ArrayList<>(admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQAdminImpl().fetchSubscribeMessageQueues(topic));
    }

    /** Messages of a queue from its first to its last offset. */
    static List<MessageExt> pullAll(DefaultMQPullConsumer consumer, MessageQueue queue, String tags) throws Exception {
        List<MessageExt> all = new ArrayList<>();
        long max = consumer.maxOffset(queue);
        for (long at = consumer.minOffset(queue); at < max;) {
            PullResult r = consumer.pull(queue, tags, at, PULL);
            if (r.getPullStatus() == PullStatus.FOUND) {
                all.addAll(r.getMsgFoundList());
            } else if (r.getPullStatus() != PullStatus.NO_MATCHED_MSG) {
                throw new AssertionError(queue + " at offset " + at + " of " + max + ": " + r);
            }
            at = r.getNextBeginOffset();
        }
        return all;
    }

    static long committed(DefaultMQPullConsumer consumer, MessageQueue queue) {
        return consumer.getDefaultMQPullConsumerImpl().getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_STORE);
    }

    /** Waits for a condition. One that cannot be evaluated, as that of a topic without a route, does not hold. */
    static void await(String what, Condition condition) throws InterruptedException {
        long end = System.currentTimeMillis() + WAIT_MS;
        for (Exception cause = null;; Thread.sleep(20)) {
            try {
                if (condition.holds()) {
                    return;
                }
                cause = null;
            } catch (Exception e) {
                cause = e;
            }
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("not after " + WAIT_MS / 1000 + " s: " + what + (cause == null ? "" : ": " + cause));
            }
        }
    }

    @Override
    public void close() {
        closers.forEach(Runnable::run);
    }
}
