package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Members of a group, and what a group or topic may do. */
final class GroupCases {
    static final List<Case> CASES = List.of(
        Case.shared("group.broadcast", GroupCases::broadcast),
        Case.shared("group.rebalance", GroupCases::rebalance),
        Case.shared("group.disabled", GroupCases::disabled),
        Case.shared("group.topic-permission", GroupCases::topicPermission));

    private static final int QUEUES = 8;
    /** Well below the 20 s after which clients rebalance by themselves: only a notification is this fast. */
    private static final Duration NOTIFIED = Duration.ofSeconds(8);

    private GroupCases() {
    }

    private static void broadcast(Kit kit) throws Exception {
        String topic = kit.topic(4);
        String group = kit.name("group");
        Inbox good = new Inbox();
        Inbox failing = new Inbox();
        for (Inbox inbox : List.of(good, failing)) {
            DefaultMQPushConsumer consumer = kit.push(group, c -> {
                c.setMessageModel(MessageModel.BROADCASTING);
                c.subscribe(topic, "*");
                c.registerMessageListener(inbox.listener(m -> inbox == good));
            });
            kit.awaitOwned(consumer, topic, 4);
        }
        Set<String> sent = kit.send(topic, "m", 40);
        good.await(Check.SOON, sent);
        failing.await(Check.SOON, sent);
        Check.holds(Duration.ofMillis(1500), "each message once for each member, failed or not",
            () -> good.size() == 40 && failing.size() == 40);
        Check.equal(0L, kit.committed(group, topic, 0), "offset at the broker");
    }

    private static void rebalance(Kit kit) throws Exception {
        String topic = kit.topic(QUEUES);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        Set<String> sent = new HashSet<>();
        for (int joined = 1; joined <= 3; joined++) {
            members.add(kit.push(group, topic, inbox.accept()));
            awaitSplit(topic, members);
            sent.addAll(kit.send(topic, "join" + joined + "-", 24));
        }
        while (members.size() > 1) {
            members.remove(0).shutdown();
            awaitSplit(topic, members);
            sent.addAll(kit.send(topic, "left" + members.size() + "-", 24));
        }
        inbox.await(Check.SOON, sent);
    }

    /** Every queue has exactly one owner, and no member has two more than another. */
    private static void awaitSplit(String topic, List<DefaultMQPushConsumer> members) throws Exception {
        Check.await(NOTIFIED, QUEUES + " queues split between " + members.size() + " members", () -> {
            Set<Integer> owned = new HashSet<>();
            int all = 0;
            for (DefaultMQPushConsumer member : members) {
                Set<Integer> share = Kit.owned(member, topic).keySet();
                if (share.size() < QUEUES / members.size()) {
                    return false;
                }
                all += share.size();
                owned.addAll(share);
            }
            return all == QUEUES && owned.size() == QUEUES;
        });
    }

    private static RemotingCommand pull(Kit kit, String group, String topic) throws Exception {
        PullMessageRequestHeader header = new PullMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(0);
        header.setQueueOffset(0L);
        header.setMaxMsgNums(32);
        header.setSysFlag(4);
        header.setCommitOffset(0L);
        header.setSuspendTimeoutMillis(0L);
        header.setSubscription("*");
        header.setSubVersion(0L);
        return kit.call(RequestCode.PULL_MESSAGE, header, null);
    }

    private static void forbidden(Kit kit, String group, String topic, String type, String remark) throws Exception {
        RemotingCommand answer = pull(kit, group, topic);
        Check.equal(ResponseCode.NO_PERMISSION, answer.getCode(), "code");
        Check.equal(type, answer.getExtFields().get("forbiddenType"), "forbidden type");
        Check.contains(remark, answer.getRemark());
    }

    private static void setConsumeEnable(Kit kit, String group, boolean enabled) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        config.setConsumeEnable(enabled);
        kit.admin().createAndUpdateSubscriptionGroupConfig(kit.env.master(), config);
    }

    private static void disabled(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        setConsumeEnable(kit, group, false);
        kit.send(message(topic, "m"));
        kit.awaitTotal(topic, 1, 1);
        forbidden(kit, group, topic, "2", "subscription group no permission, " + group);
        Inbox inbox = new Inbox();
        kit.push(group, topic, inbox.accept());
        Check.holds(Duration.ofSeconds(2), "nothing consumed", () -> inbox.size() == 0);
        setConsumeEnable(kit, group, true);
        Check.equal(ResponseCode.SUCCESS, pull(kit, group, topic).getCode(), "code when enabled again");
        inbox.await(Check.SOON, Set.of("m"));
    }

    private static void topicPermission(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        kit.setTopic(topic, 1, 2);
        kit.send(message(topic, "m"));
        kit.awaitTotal(topic, 1, 1);
        forbidden(kit, group, topic, "3", "the topic[" + topic + "] pulling message is forbidden");

        kit.setTopic(topic, 1, 4);
        Check.equal(ResponseCode.SUCCESS, pull(kit, group, topic).getCode(), "code of a pull from a readable topic");
        Check.await(Check.SOON, "route says read only",
            () -> kit.admin().examineTopicRouteInfo(topic).getQueueDatas().get(0).getPerm() == 4);
        DefaultMQProducer late = kit.producer(p -> { });
        try {
            late.send(message(topic, "x"));
            throw new AssertionError("a producer found a queue in a topic that is read only");
        } catch (MQClientException noRoute) {
            Check.that(noRoute.getMessage() != null, "a reason");
        }
        kit.setTopic(topic, 1, 6);
        Check.await(Check.SOON, "send succeeds again", () -> late.send(message(topic, "y")) != null);
    }
}
