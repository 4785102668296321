package castor.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * A producer with default settings that sends until it is killed, for {@code castor chaos -load}:
 * {@code Load NAMESRV TOPIC [THREADS [PER_SECOND]]}. Each thread numbers its messages; the body is thread and number.
 *
 * <p>For every send a line tells how it ended: {@code ok THREAD NUMBER}, or {@code fail THREAD NUMBER MS WHY}.
 */
public final class Load {
    private Load() {
    }

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("chaos-load");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        int threads = args.length > 2 ? Integer.parseInt(args[2]) : 4;
        long period = TimeUnit.SECONDS.toNanos(1) / (args.length > 3 ? Integer.parseInt(args[3]) : 100);
        for (int i = 0; i < threads; i++) {
            int thread = i;
            new Thread(() -> run(producer, args[1], thread, period)).start();
        }
    }

    private static void run(DefaultMQProducer producer, String topic, int thread, long period) {
        long due = System.nanoTime();
        for (long n = 0;; n++) {
            String body = thread + " " + n;
            long start = System.nanoTime();
            String line;
            try {
                SendStatus status = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8))).getSendStatus();
                line = status == SendStatus.SEND_OK ? "ok " + body : failed(body, start, status);
            } catch (Exception e) {
                line = failed(body, start, e);
            }
            System.out.println(line);
            due = Math.max(due + period, System.nanoTime() - period);
            LockSupport.parkNanos(due - System.nanoTime());
        }
    }

    private static String failed(String body, long start, Object why) {
        return "fail " + body + " " + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) + " "
            + why.toString().replace('\n', ' ');
    }
}
