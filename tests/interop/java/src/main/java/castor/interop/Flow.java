package castor.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends without a pause, whatever happens to the cluster, and remembers what was acknowledged. */
final class Flow implements AutoCloseable {
    /** Sends the message of a number; may return null where the answer comes to {@link #acknowledged} by itself. */
    interface Sender {
        SendResult send(String body) throws Exception;
    }

    /** An acknowledged message and where it is said to be. */
    record Sent(String body, int queueId, long queueOffset) { }

    final AtomicInteger failures = new AtomicInteger();
    private final String prefix;
    private final Sender sender;
    private final Duration pause;
    private final boolean again;
    private final List<Sent> sent = new ArrayList<>();
    private final AtomicLong lastAck = new AtomicLong(System.nanoTime());
    private final Thread thread;
    private volatile boolean stop;
    private volatile String lastFailure = "none";

    /** @param again whether a number that failed is sent until it is acknowledged, before the next one */
    private Flow(String prefix, Duration pause, boolean again, Sender sender) {
        this.prefix = prefix;
        this.sender = sender;
        this.pause = pause;
        this.again = again;
        thread = new Thread(this::run, "flow-" + prefix);
        thread.setDaemon(true);
        thread.start();
    }

    static Flow start(Kit kit, String prefix, boolean again, Sender sender) {
        return kit.closing(new Flow(prefix, Duration.ofMillis(20), again, sender));
    }

    static Flow start(Kit kit, String prefix, Duration pause, Sender sender) {
        return kit.closing(new Flow(prefix, pause, false, sender));
    }

    private void run() {
        for (int i = 0; !stop; i++) {
            boolean ok;
            do {
                ok = once(prefix + i);
                pause(ok ? pause.toMillis() : Math.max(pause.toMillis(), 10));
            } while (!ok && again && !stop);
        }
    }

    private boolean once(String body) {
        try {
            SendResult result = sender.send(body);
            if (result != null) {
                acknowledged(body, result);
            }
            return true;
        } catch (Exception e) {
            failed(e);
            return false;
        }
    }

    void failed(Throwable e) {
        failures.incrementAndGet();
        lastFailure = e.toString();
    }

    void acknowledged(String body, SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            failed(new IllegalStateException(result.getSendStatus().name()));
            return;
        }
        add(List.of(new Sent(body, result.getMessageQueue().getQueueId(), result.getQueueOffset())));
    }

    void add(List<Sent> more) {
        lastAck.set(System.nanoTime());
        synchronized (sent) {
            sent.addAll(more);
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    List<Sent> sent() {
        synchronized (sent) {
            return List.copyOf(sent);
        }
    }

    /** The bodies that were acknowledged. */
    Set<String> bodies() {
        Set<String> bodies = new TreeSet<>();
        sent().forEach(s -> bodies.add(s.body()));
        return bodies;
    }

    /** Waits until so many more have been acknowledged. */
    void awaitMore(int count) throws InterruptedException {
        int before = sent().size();
        Check.await(Duration.ofSeconds(40), count + " more acknowledgements of " + prefix + ", last failure " + lastFailure,
            () -> sent().size() >= before + count);
    }

    /** Ends it; returns the bodies that were acknowledged. */
    Set<String> end() throws InterruptedException {
        close();
        thread.join(20_000);
        return bodies();
    }

    /** Time since the last acknowledgement. */
    long sinceLastMs() {
        return (System.nanoTime() - lastAck.get()) / 1_000_000;
    }

    @Override
    public void close() {
        stop = true;
    }

    /** Every acknowledged message is where its answer said. */
    static void checkStored(Kit kit, String topic, int queues, List<Sent> sent) throws Exception {
        Map<Integer, List<MessageExt>> stored = new TreeMap<>();
        for (int i = 0; i < queues; i++) {
            stored.put(i, kit.read(topic, i));
        }
        for (Sent s : sent) {
            MessageExt found = stored.get(s.queueId()).stream().filter(m -> m.getQueueOffset() == s.queueOffset()).findAny().orElse(null);
            Check.that(found != null, s + " was acknowledged and is lost");
            Check.equal(s.body(), Kit.text(found), "body at offset " + s.queueOffset() + " of queue " + s.queueId());
        }
    }
}
