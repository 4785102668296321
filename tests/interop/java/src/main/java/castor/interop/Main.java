package castor.interop;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Runs the cases against a name server: {@code Main NAMESRV [--only PATTERN] [--list]}.
 *
 * <p>Cases that can share the cluster run first, several at a time since most of their time is waiting; the others
 * follow one by one.
 */
public final class Main {
    private static final int WORKERS = 8;
    private static final PrintStream OUT = System.out;

    private final AtomicInteger passed = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        String only = "";
        boolean list = false;
        String namesrv = null;
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--only" -> only = args[++i];
                case "--list" -> list = true;
                default -> namesrv = args[i];
            }
        }
        String pattern = only;
        List<Case> cases = cases().stream().filter(c -> c.name().contains(pattern)).toList();
        if (list) {
            cases.forEach(c -> OUT.println(c.name()));
            return;
        }
        System.exit(new Main().run(namesrv, cases));
    }

    static List<Case> cases() {
        return Stream.of(
            RetryCases.CASES, OrderCases.CASES, SendCases.CASES, BatchCases.CASES, FilterCases.CASES, SqlCases.CASES,
            PullCases.CASES, LitePullCases.CASES, OffsetCases.CASES, ResetCases.CASES, GroupCases.CASES,
            DelayCases.CASES, ReplyCases.CASES, QueryCases.CASES, AdminCases.CASES, ConfigCases.CASES,
            RestartCases.CASES).flatMap(List::stream).toList();
    }

    private int run(String namesrv, List<Case> cases) throws Exception {
        try (Env env = new Env(namesrv)) {
            ExecutorService pool = Executors.newFixedThreadPool(WORKERS);
            List<Case> alone = new ArrayList<>();
            for (Case c : cases) {
                if (c.alone()) {
                    alone.add(c);
                } else {
                    pool.execute(() -> run(env, c));
                }
            }
            pool.shutdown();
            pool.awaitTermination(1, TimeUnit.HOURS);
            alone.forEach(c -> run(env, c));
        }
        OUT.printf("%d passed, %d failed%n", passed.get(), failed.get());
        return failed.get() == 0 && passed.get() > 0 ? 0 : 1;
    }

    private void run(Env env, Case c) {
        long start = System.nanoTime();
        try (Kit kit = new Kit(env)) {
            c.body().run(kit);
            passed.incrementAndGet();
            OUT.printf("ok %s %d%n", c.name(), (System.nanoTime() - start) / 1_000_000);
        } catch (Throwable e) {
            failed.incrementAndGet();
            OUT.printf("FAIL %s: %s%n", c.name(), reason(e));
        }
    }

    /** What went wrong and the line of the case that it went wrong in. */
    private static String reason(Throwable e) {
        String what = e instanceof AssertionError ? e.getMessage() : e.toString();
        String where = Stream.of(e.getStackTrace())
            .filter(f -> f.getFileName() != null && f.getFileName().endsWith("Cases.java"))
            .map(f -> " (" + f.getFileName() + ":" + f.getLineNumber() + ")").findFirst().orElse("");
        return String.valueOf(what).replace('\n', ' ') + where;
    }
}
