package castor.interop;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.Phaser;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The change of the master that cases wait for together: when all of them have come to it, or have failed before, the
 * runner is asked for it, and they go on when there is another master.
 */
final class Switchover {
    private static final int LIMIT_SECONDS = 170;
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private final Phaser cases;
    private volatile Exception failed;

    /** @param parties how many cases will come to it or leave */
    Switchover(int parties, Env env) {
        cases = new Phaser(parties) {
            @Override
            protected boolean onAdvance(int phase, int registered) {
                if (registered > 0) {
                    try {
                        env.brokerAddress = ask("together");
                    } catch (IOException | InterruptedException e) {
                        failed = e;
                    }
                }
                return true;
            }
        };
    }

    /** Has the runner do something to the cluster, see ha/group.py; returns the address of the master after it. */
    static String ask(String what) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("HA_CONTROL") + "/" + what))
            .timeout(Duration.ofSeconds(LIMIT_SECONDS)).build();
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(what + ": " + response.body());
        }
        return response.body();
    }

    /** Comes to the change and waits until it is over. */
    void meet() throws Exception {
        try {
            int phase = cases.arrive();
            cases.awaitAdvanceInterruptibly(phase, LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw new AssertionError("another case did not come to the change of the master");
        }
        if (failed != null) {
            throw failed;
        }
    }

    /** Tells that a case will not come. */
    void leave() {
        cases.arriveAndDeregister();
    }
}
