package castor.interop;

import static castor.interop.Kit.message;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Delay levels. The cluster's are short: 1s 2s 3s, then 1s up to level 17, and 2s for level 18. */
final class DelayCases {
    static final List<Case> CASES = List.of(
        Case.shared("delay.levels", DelayCases::levels));

    private static final int MAX_LEVEL = 18;

    private DelayCases() {
    }

    /** How long a level of the cluster under test takes; levels above the last are the last. */
    static long delayMs(int level) {
        return switch (Math.min(level, MAX_LEVEL)) {
            case 2, MAX_LEVEL -> 2000;
            case 3 -> 3000;
            default -> 1000;
        };
    }

    private static void levels(Kit kit) throws Exception {
        String topic = kit.topic(4);
        Inbox inbox = new Inbox();
        kit.push(kit.name("group"), topic, inbox.accept());
        List<Integer> levels = List.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 99);
        Map<String, SendResult> sent = new HashMap<>();
        for (int level : levels) {
            Message m = message(topic, "" + level);
            m.setDelayTimeLevel(level);
            m.putUserProperty("level", "" + level);
            sent.put("" + level, kit.send(m));
        }
        inbox.awaitCount(Check.SOON, levels.size());
        for (Inbox.Received r : inbox.all()) {
            MessageExt m = r.message();
            int level = Integer.parseInt(r.body());
            long late = r.atMs() - m.getBornTimestamp() - delayMs(level);
            Check.between(-50, 1500, late, "ms too late at level " + level);
            Check.equal(topic, m.getTopic(), "topic");
            Check.equal(topic, m.getProperty("REAL_TOPIC"), "real topic");
            Check.equal("" + level, m.getUserProperty("level"), "property");
            Check.equal(sent.get(r.body()).getMsgId(), m.getMsgId(), "unique id");
            Check.equal(sent.get(r.body()).getMessageQueue().getQueueId(), m.getQueueId(), "queue");
        }
        Check.equal(levels.size(), inbox.size(), "deliveries");
    }
}
