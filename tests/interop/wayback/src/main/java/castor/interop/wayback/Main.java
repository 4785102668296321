package castor.interop.wayback;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Fills brokers and reads from brokers, as lines on standard input say: {@code write NAMESRV BROKER LABEL},
 * {@code read ...} and {@code read-again ...}, with spaces. What the last write noted is what reads expect; the second expects
 * what the first has done, too.
 *
 * <p>Prints a line for each case, as in ../run, and {@code done} after each command.
 */
public final class Main {
    private interface Case {
        void run() throws Exception;
    }

    private static final PrintStream OUT = System.out;
    private Ledger ledger;
    private String label;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Main main = new Main();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            main.obey(line.split(" "));
            OUT.println("done");
        }
        System.exit(0); // client threads are not daemons
    }

    private void obey(String[] words) throws Exception {
        label = words[3];
        try (Clients clients = new Clients(words[1], words[2])) {
            if (words[0].equals("write")) {
                run("write", () -> ledger = Writer.write(clients));
                return;
            }
            Reader reader = new Reader(clients, ledger);
            if (words[0].equals("read-again")) {
                run("again-every-message", reader::everyMessage);
                run("again-resumes", reader::resumes);
                run("again-dead-letters", reader::dead);
                run("again-delayed", reader::delayed);
                run("again-goes-on", reader::goesOn);
                return;
            }
            run("every-message", reader::everyMessage);
            run("by-tag", reader::byTag);
            run("by-key", reader::byKey);
            run("by-unique-key", reader::byUniqueKey);
            run("resumes", reader::resumes);
            run("dead-letters", reader::dead);
            run("delayed", reader::delayed);
            run("retried", reader::retried);
            run("goes-on", reader::goesOn);
        }
    }

    private void run(String name, Case c) {
        long start = System.nanoTime();
        try {
            c.run();
            OUT.printf("ok %s/%s %d%n", label, name, (System.nanoTime() - start) / 1_000_000);
        } catch (Throwable e) {
            OUT.printf("FAIL %s/%s: %s%n", label, name, String.valueOf(e).replace('\n', ' '));
        }
    }
}
