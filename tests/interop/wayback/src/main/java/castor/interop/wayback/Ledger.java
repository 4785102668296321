package castor.interop.wayback;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What one broker has acknowledged, and the next must have. */
final class Ledger {
    /** A message in its place. What a query finds has no broker name. */
    record Entry(String topic, int queue, long offset, String id, String tags, String keys, String size, String hash) {
        static Entry found(MessageExt m) {
            return new Entry(m.getTopic(), m.getQueueId(), m.getQueueOffset(), m.getMsgId(), m.getTags(), m.getKeys(), m.getUserProperty(Plan.SIZE), Ledger.hash(m.getBody()));
        }
    }

    /** By queue, in the order of their offsets: everything that the queue holds. */
    final Map<MessageQueue, List<Entry>> queues = new TreeMap<>();
    /** Bodies by what happened to their messages. */
    final List<String> delivered = new ArrayList<>();
    final List<String> pending = new ArrayList<>();
    final List<String> retried = new ArrayList<>();
    final List<String> dead = new ArrayList<>();
    /** Where the group that has read some reads on. */
    final Map<MessageQueue, Long> committed = new TreeMap<>();

    void add(MessageQueue queue, long offset, String id, Message m) {
        queues.computeIfAbsent(queue, q -> new ArrayList<>()).add(new Entry(
            queue.getTopic(), queue.getQueueId(), offset, id, m.getTags(), m.getKeys(), m.getUserProperty(Plan.SIZE), hash(m.getBody())));
    }

    static String hash(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }
}
