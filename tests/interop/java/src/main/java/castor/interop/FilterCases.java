package castor.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Tag filters. "Aa" and "BB" have the same hash, so the broker cannot tell them apart and the client has to. */
final class FilterCases {
    static final List<Case> CASES = List.of(
        Case.shared("filter.tag-push", FilterCases::push),
        Case.shared("filter.tag-pull", FilterCases::pull),
        Case.shared("filter.tag-long-poll", FilterCases::longPoll));

    private FilterCases() {
    }

    private static void sendTags(Kit kit, String topic, String... tags) throws Exception {
        for (int i = 0; i < tags.length; i++) {
            kit.send(new Message(topic, tags[i], (tags[i] + "-" + i).getBytes(UTF_8)));
        }
    }

    private static void push(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String one = kit.name("one");
        String two = kit.name("two");
        Inbox aa = new Inbox();
        Inbox ccOrDd = new Inbox();
        kit.push(one, c -> {
            c.subscribe(topic, "Aa");
            c.registerMessageListener(aa.accept());
        });
        kit.push(two, c -> {
            c.subscribe(topic, "CC || DD");
            c.registerMessageListener(ccOrDd.accept());
        });
        sendTags(kit, topic, "Aa", "BB", "CC", "", "DD", "Aa", "BB", "EE", "CC", "Aa");
        aa.await(Check.SOON, Set.of("Aa-0", "Aa-5", "Aa-9"));
        ccOrDd.await(Check.SOON, Set.of("CC-2", "DD-4", "CC-8"));
        kit.awaitCommitted(one, topic, 1);
        Check.equal(3, aa.size(), "messages of tag Aa");
        Check.equal(3, ccOrDd.size(), "messages of tags CC and DD");
    }

    private static void pull(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        sendTags(kit, topic, "Aa", "BB", "CC", "Aa", "BB");
        kit.awaitTotal(topic, 1, 5);
        PullResult both = kit.env.reader.pull(queue, "Aa", 0, 32);
        Check.equal(PullStatus.FOUND, both.getPullStatus(), "status");
        Check.equal(5L, both.getNextBeginOffset(), "offset passes BB");
        Check.equal(List.of("Aa-0", "Aa-3"), bodies(both), "bodies of Aa");
        PullResult none = kit.env.reader.pull(queue, "ZZ", 0, 32);
        Check.equal(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status without a match");
        Check.equal(5L, none.getNextBeginOffset(), "offset passes foreign tags");
    }

    static List<String> bodies(PullResult result) {
        List<MessageExt> found = result.getMsgFoundList();
        return found == null ? List.of() : found.stream().map(Kit::text).collect(Collectors.toList());
    }

    /** A held pull whose filter matches nothing of what arrives is answered all the same, with a moved offset. */
    private static void longPoll(Kit kit) throws Exception {
        String topic = kit.topic(1);
        MessageQueue queue = kit.queue(topic, 0);
        DefaultMQPullConsumer consumer = kit.pull(kit.name("group"), c -> c.setBrokerSuspendMaxTimeMillis(20_000));
        kit.send(new Message(topic, "A", "seen".getBytes(UTF_8)));
        kit.awaitTotal(topic, 1, 1);
        PullResult[] answer = new PullResult[1];
        Throwable[] error = new Throwable[1];
        long start = System.nanoTime();
        Thread held = new Thread(() -> {
            try {
                answer[0] = consumer.pullBlockIfNotFound(queue, "A", 1, 32);
            } catch (Exception e) {
                error[0] = e;
            }
        });
        held.start();
        sendTags(kit, topic, "B", "C");
        held.join(30_000);
        long elapsedMs = (System.nanoTime() - start) / 1_000_000;
        Check.that(error[0] == null, "pull failed: " + error[0]);
        Check.that(answer[0] != null, "pull answered");
        Check.equal(PullStatus.NO_MATCHED_MSG, answer[0].getPullStatus(), "status");
        Check.between(2, 3, answer[0].getNextBeginOffset(), "next offset");
        Check.between(0, 8000, elapsedMs, "ms until the answer");
    }
}
