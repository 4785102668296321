package castor.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** Collects what consumers receive, in order of arrival. */
final class Inbox {
    /** @param atMs when the listener was called, on the wall clock that store and born timestamps use */
    record Received(MessageExt message, long atMs) {
        String body() {
            return Kit.text(message);
        }
    }

    private final List<Received> received = new ArrayList<>();

    synchronized void add(MessageExt message) {
        received.add(new Received(message, System.currentTimeMillis()));
    }

    synchronized List<Received> all() {
        return List.copyOf(received);
    }

    synchronized int size() {
        return received.size();
    }

    synchronized void clear() {
        received.clear();
    }

    List<String> bodies() {
        return all().stream().map(Received::body).collect(Collectors.toList());
    }

    /** The bodies without repetition, sorted. */
    Set<String> distinct() {
        return new TreeSet<>(bodies());
    }

    /** Waits until all these bodies have come. */
    void await(Duration limit, Set<String> bodies) throws InterruptedException {
        Check.await(limit, "all of " + bodies.size() + " messages received", () -> distinct().containsAll(bodies));
    }

    void awaitCount(Duration limit, int count) throws InterruptedException {
        Check.await(limit, count + " messages received", () -> size() >= count);
    }

    /** A listener that succeeds with every message. */
    MessageListenerConcurrently accept() {
        return listener(m -> true);
    }

    /** A listener that succeeds where the predicate says so and asks for a retry otherwise. */
    MessageListenerConcurrently listener(Predicate<MessageExt> succeeds) {
        return (messages, context) -> {
            boolean ok = true;
            for (MessageExt message : messages) {
                add(message);
                ok &= succeeds.test(message);
            }
            return ok ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        };
    }
}
