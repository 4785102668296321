package castor.interop;

import static castor.interop.Kit.message;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.ProducerConnection;

/** What administrators see of clients, topics that are deleted, and the message trace. */
final class AdminCases {
    static final List<Case> CASES = List.of(
        Case.shared("admin.running-info", AdminCases::runningInfo),
        Case.shared("admin.consume-directly", AdminCases::consumeDirectly),
        Case.shared("admin.connections", AdminCases::connections),
        Case.shared("admin.topic-recreate", AdminCases::topicRecreate),
        Case.shared("admin.trace", AdminCases::trace));

    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private AdminCases() {
    }

    private static void runningInfo(Kit kit) throws Exception {
        String topic = kit.topic(4);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = kit.push(group, topic, inbox.accept());
        inbox.await(Check.SOON, kit.send(topic, "m", 8));
        kit.awaitOwned(consumer, topic, 4);
        String clientId = consumer.buildMQClientId();
        ConsumerRunningInfo info = kit.admin().getConsumerRunningInfo(group, clientId, true);
        Check.that(info.getSubscriptionSet().stream().anyMatch(s -> s.getTopic().equals(topic)), "subscription");
        Check.equal(4L, info.getMqTable().keySet().stream().filter(q -> q.getTopic().equals(topic)).count(), "queues");
        Check.that(info.getStatusTable().containsKey(topic), "status of the topic");
        Check.contains("ConsumeMessageThread", info.getJstack());
        Check.fails(ResponseCode.SYSTEM_ERROR, () -> kit.admin().getConsumerRunningInfo(group, "nobody@1", false));
    }

    private static void consumeDirectly(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer =
            kit.push(group, topic, inbox.listener(m -> !Kit.text(m).equals("bad") || inbox.size() < 3));
        SendResult good = kit.send(message(topic, "good"));
        SendResult bad = kit.send(message(topic, "bad"));
        inbox.await(Check.SOON, Set.of("good", "bad"));
        ConsumeMessageDirectlyResult result =
            kit.admin().consumeMessageDirectly(group, consumer.buildMQClientId(), topic, good.getOffsetMsgId());
        Check.equal(CMResult.CR_SUCCESS, result.getConsumeResult(), "result of good");
        Check.equal(3, inbox.size(), "messages received");
        Check.equal("good", inbox.bodies().get(2), "the one consumed directly");
        result = kit.admin().consumeMessageDirectly(group, consumer.buildMQClientId(), topic, bad.getOffsetMsgId());
        Check.equal(CMResult.CR_LATER, result.getConsumeResult(), "result of bad");
    }

    private static void connections(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        Check.fails(ResponseCode.CONSUMER_NOT_ONLINE, () -> kit.admin().examineConsumerConnectionInfo(group));
        DefaultMQPushConsumer consumer = kit.push(group, c -> {
            c.subscribe(topic, "A || B");
            c.registerMessageListener(new Inbox().accept());
        });
        Check.await(Check.SOON, "consumer online",
            () -> kit.admin().examineConsumerConnectionInfo(group).getConnectionSet().size() == 1);
        ConsumerConnection connection = kit.admin().examineConsumerConnectionInfo(group);
        String clientId = connection.getConnectionSet().iterator().next().getClientId();
        Check.equal(consumer.buildMQClientId(), clientId, "client");
        Check.equal(Set.of("A", "B"), connection.getSubscriptionTable().get(topic).getTagsSet(), "tags");
        DefaultMQProducer producer = kit.producer(p -> { });
        producer.send(message(topic, "m"));
        Check.await(Check.SOON, "producer online", () -> {
            ProducerConnection p = kit.admin().examineProducerConnectionInfo(producer.getProducerGroup(), topic);
            return p.getConnectionSet().size() == 1;
        });
        consumer.shutdown();
        Check.await(Check.SOON, "consumer gone", () -> {
            Check.fails(ResponseCode.CONSUMER_NOT_ONLINE, () -> kit.admin().examineConsumerConnectionInfo(group));
            return true;
        });
    }

    /** A topic deleted and made again under a running consumer: offsets start at 0, the consumer finds its way. */
    private static void topicRecreate(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.accept());
        inbox.await(Check.SOON, kit.send(topic, "old", 20));
        kit.awaitCommitted(group, topic, 1);
        kit.admin().deleteTopic(topic, kit.env.clusterName);
        Check.await(Check.SOON, "route gone", () -> {
            Check.fails(ResponseCode.TOPIC_NOT_EXIST, () -> kit.admin().examineTopicRouteInfo(topic));
            return true;
        });
        Check.equal(0L, kit.max(topic, 0), "max offset of the deleted queue");
        kit.createTopic(topic, 1);
        Check.equal(0L, kit.send(message(topic, "first"), 0).getQueueOffset(), "first offset of the new topic");
        Check.await(Check.SOON, "consumer receives from the new topic", () -> {
            kit.send(message(topic, "new"), 0);
            return inbox.bodies().contains("new");
        });
    }

    private static void trace(Kit kit) throws Exception {
        String topic = kit.topic(1);
        DefaultMQProducer producer = kit.producer(p -> p.setEnableTrace(true));
        Inbox inbox = new Inbox();
        String group = kit.name("group");
        kit.push(group, c -> {
            c.setEnableTrace(true);
            c.subscribe(topic, "*");
            c.registerMessageListener(inbox.accept());
        });
        Message m = message(topic, "traced");
        m.setKeys("trace-key");
        SendResult sent = producer.send(m);
        inbox.awaitCount(Check.SOON, 1);
        Check.await(Check.SOON, "three trace records of " + sent.getMsgId(), () -> {
            List<String> kinds = new ArrayList<>();
            for (String part : traces(kit, sent.getMsgId())) {
                kinds.add(part.substring(0, part.indexOf('\u0001')));
            }
            return kinds.containsAll(List.of("Pub", "SubBefore", "SubAfter"));
        });
        Check.that(traces(kit, "trace-key").stream().anyMatch(t -> t.contains(group)), "consumer in the trace by key");
    }

    /** The trace records in the messages that a key finds. */
    private static List<String> traces(Kit kit, String key) throws MQClientException, InterruptedException {
        List<String> records = new ArrayList<>();
        for (MessageExt m : kit.producer().queryMessage(TRACE_TOPIC, key, 64, 0, Long.MAX_VALUE).getMessageList()) {
            for (String record : Kit.text(m).split("\u0002")) {
                if (!record.isEmpty()) {
                    records.add(record);
                }
            }
        }
        return records;
    }
}
