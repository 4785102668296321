package castor.interop;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/** Assertions, and waiting for a condition with a deadline. */
final class Check {
    /** Long enough for anything that should happen at once on a loaded machine. */
    static final Duration SOON = Duration.ofSeconds(20);

    interface Action {
        void run() throws Exception;
    }

    private Check() {
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object want, Object got, String what) {
        that(Objects.equals(want, got), what + ": want " + want + ", got " + got);
    }

    static void contains(String part, String text) {
        that(text != null && text.contains(part), "want text with \"" + part + "\", got \"" + text + "\"");
    }

    static void between(long low, long high, long got, String what) {
        that(low <= got && got <= high, what + ": want " + low + ".." + high + ", got " + got);
    }

    /** Waits until the condition holds. An exception counts as not yet. */
    static void await(Duration limit, String what, Callable<Boolean> condition) throws InterruptedException {
        long end = System.nanoTime() + limit.toNanos();
        Exception last = null;
        do {
            try {
                if (condition.call()) {
                    return;
                }
                last = null;
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(20);
        } while (System.nanoTime() < end);
        throw new AssertionError("not within " + limit.toMillis() + " ms: " + what + (last == null ? "" : ", " + last));
    }

    /** Watches that a condition goes on to hold for a while. */
    static void holds(Duration time, String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + time.toNanos();
        do {
            that(condition.call(), what);
            Thread.sleep(20);
        } while (System.nanoTime() < end);
    }

    /** The action must fail with this response code; returns the text of the error and of its cause. */
    static String fails(int code, Action action) throws Exception {
        try {
            action.run();
        } catch (MQBrokerException e) {
            equal(code, e.getResponseCode(), "response code of \"" + e.getErrorMessage() + "\"");
            return e.getErrorMessage();
        } catch (MQClientException e) {
            equal(code, e.getResponseCode(), "response code of \"" + e.getErrorMessage() + "\"");
            return e.getErrorMessage() + " " + e.getCause();
        }
        throw new AssertionError("succeeded, want code " + code);
    }
}
