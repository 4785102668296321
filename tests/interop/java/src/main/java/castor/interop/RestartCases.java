package castor.interop;

import static castor.interop.Kit.message;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The broker killed and started again under its clients. */
final class RestartCases {
    static final List<Case> CASES = List.of(
        Case.alone("restart.commit", RestartCases::commit));

    /** Offsets are written every 5 s: what was committed longer ago than this must be known after a kill. */
    private static final long COMMIT_KEPT_MS = 7000;

    private RestartCases() {
    }

    /** Nothing acknowledged is lost, old commits hold, and producers and consumers (also with V2 heartbeats) go on. */
    private static void commit(Kit kit) throws Exception {
        String topic = kit.topic(4);
        String group = kit.name("group");
        Inbox inbox = new Inbox();
        Inbox byV2 = new Inbox();
        kit.push(group, topic, inbox.accept());
        kit.push(kit.name("v2"), c -> {
            c.setUseHeartbeatV2(true);
            c.subscribe(topic, "*");
            c.registerMessageListener(byV2.accept());
        });
        Set<String> settled = kit.send(topic, "settled", 40);
        inbox.await(Check.SOON, settled);
        kit.awaitCommitted(group, topic, 4);
        long committedAt = System.currentTimeMillis();

        Set<String> sent = new TreeSet<>(settled);
        Check.await(Check.SOON, "commits are older than the writing interval", () -> {
            sent.addAll(kit.send(topic, "flow" + sent.size() + "-", 1));
            return System.currentTimeMillis() > committedAt + COMMIT_KEPT_MS;
        });
        inbox.await(Check.SOON, sent);
        inbox.clear();
        Message delayed = message(topic, "delayed");
        delayed.setDelayTimeLevel(3);
        kit.send(delayed);
        kit.env.restartBroker();

        Check.await(Duration.ofSeconds(40), "sends succeed again", () -> kit.send(message(topic, "again")) != null);
        sent.addAll(kit.send(topic, "after", 40));
        Set<String> after = new TreeSet<>(sent);
        after.removeIf(body -> !body.startsWith("after"));
        inbox.await(Duration.ofSeconds(60), after);
        byV2.await(Duration.ofSeconds(60), after);
        inbox.await(Check.SOON, Set.of("delayed"));
        for (String body : settled) {
            Check.that(!inbox.bodies().contains(body), body + " was delivered again though committed long before");
        }
        Set<String> stored = new TreeSet<>();
        for (int i = 0; i < 4; i++) {
            long offset = 0;
            for (MessageExt m : kit.read(topic, i)) {
                Check.equal(offset++, m.getQueueOffset(), "queue offset");
                stored.add(Kit.text(m));
            }
        }
        Check.that(stored.containsAll(sent), "every acknowledged message is stored");
    }
}
