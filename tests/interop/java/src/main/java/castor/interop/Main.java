package castor.interop;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Runs the cases against a name server: {@code Main NAMESRV [--ha] [--only PATTERN] [--list]}. With {@code --ha} those
 * that want a group of brokers, whose master is killed under them.
 *
 * <p>Cases that can share the cluster run first, several at a time since most of their time is waiting; the others
 * follow one by one.
 */
public final class Main {
    private static final int WORKERS = 8;
    private static final int LIMIT_SECONDS = 180;
    private static final PrintStream OUT = System.out;

    private final AtomicInteger passed = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        String only = "";
        boolean list = false;
        boolean ha = false;
        String namesrv = null;
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--only" -> only = args[++i];
                case "--list" -> list = true;
                case "--ha" -> ha = true;
                default -> namesrv = args[i];
            }
        }
        String pattern = only;
        List<Case> cases = (ha ? HaCases.CASES : cases()).stream().filter(c -> c.name().contains(pattern)).toList();
        if (list) {
            cases.forEach(c -> OUT.println(c.name()));
            return;
        }
        System.exit(new Main().run(namesrv, cases, ha));
    }

    static List<Case> cases() {
        return Stream.of(
            // Those that wait longest come first, so that the others fill their time.
            RetryCases.CASES, ResetCases.CASES, LitePullCases.CASES, OrderCases.CASES, SendCases.CASES,
            BatchCases.CASES, FilterCases.CASES, SqlCases.CASES, PullCases.CASES, OffsetCases.CASES, GroupCases.CASES,
            DelayCases.CASES, ReplyCases.CASES, QueryCases.CASES, AdminCases.CASES, ConfigCases.CASES,
            RestartCases.CASES).flatMap(List::stream).toList();
    }

    private int run(String namesrv, List<Case> cases, boolean ha) throws Exception {
        try (Env env = new Env(namesrv)) {
            int shared = (int) cases.stream().filter(c -> !c.alone()).count();
            if (ha) {
                env.switchover = new Switchover(shared, env);
            }
            ExecutorService pool = Executors.newFixedThreadPool(ha ? Math.max(shared, 1) : WORKERS);
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
            env.switchover = null;
            alone.forEach(c -> run(env, c));
        }
        OUT.printf("%d passed, %d failed%n", passed.get(), failed.get());
        return failed.get() == 0 ? 0 : 1;
    }

    private void run(Env env, Case c) {
        long start = System.nanoTime();
        FutureTask<Void> task = new FutureTask<>(() -> {
            try (Kit kit = new Kit(env)) {
                c.body().run(kit);
            }
            return null;
        });
        Thread thread = new Thread(task, c.name());
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(LIMIT_SECONDS, TimeUnit.SECONDS);
            passed.incrementAndGet();
            OUT.printf("ok %s %d%n", c.name(), (System.nanoTime() - start) / 1_000_000);
        } catch (ExecutionException e) {
            fail(c, reason(e.getCause()));
        } catch (TimeoutException e) {
            fail(c, "still running after " + LIMIT_SECONDS + " s" + where(thread.getStackTrace()));
        } catch (InterruptedException e) {
            fail(c, "interrupted");
        }
    }

    private void fail(Case c, String reason) {
        failed.incrementAndGet();
        OUT.printf("FAIL %s: %s%n", c.name(), reason);
    }

    private static String reason(Throwable e) {
        String what = e instanceof AssertionError ? e.getMessage() : e.toString();
        return String.valueOf(what).replace('\n', ' ') + where(e.getStackTrace());
    }

    /** The line of the case's code in a stack. */
    private static String where(StackTraceElement[] stack) {
        return Stream.of(stack)
            .filter(f -> f.getFileName() != null && f.getFileName().endsWith("Cases.java"))
            .map(f -> " (" + f.getFileName() + ":" + f.getLineNumber() + ")").findFirst().orElse("");
    }
}
