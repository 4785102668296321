import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.offset.ResetOffsetByTimeOldCommand;

/**
 * Runs mqadmin commands one after the other in one JVM, and the clients whose traces the commands show.
 *
 * Reads lines of words separated by tabs. A first word with @ is one of ours (see {@link #own}); anything else goes to
 * mqadmin as it is. Answers each line with a header, "OUT ERR", and then OUT bytes of standard output and ERR bytes
 * of standard error. A usage error ends the JVM, because mqadmin then calls System.exit.
 */
public final class Driver {
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();
    private final Map<String, List<String>> consumed = new HashMap<>();
    private final String namesrv = System.getProperty("rocketmq.namesrv.addr");

    public static void main(String[] args) throws Exception {
        OutputStream reply = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        startHurry(Thread.currentThread());
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            driver.run(line.split("\t", -1));
            byte[] printed = out.toByteArray();
            byte[] failed = err.toByteArray();
            reply.write((printed.length + " " + failed.length + "\n").getBytes(StandardCharsets.UTF_8));
            reply.write(printed);
            reply.write(failed);
            reply.flush();
        }
        // Client threads are not daemons.
        System.exit(0);
    }

    /**
     * Ends a wait in the tools: when a client shuts down while its event thread polls for events, which it does for
     * three seconds at a time, it waits for that poll. An interrupt ends the poll, and nothing else happens.
     */
    private static void startHurry(Thread commands) {
        Thread thread = new Thread(() -> {
            while (true) {
                boolean waits = Arrays.stream(commands.getStackTrace()).anyMatch(frame ->
                    frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown"));
                if (waits) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(t -> t.getName().equals("NettyEventExecutor")).forEach(Thread::interrupt);
                }
                LockSupport.parkNanos(10_000_000);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void run(String[] words) {
        try {
            if (words[0].startsWith("@")) {
                own(words[0], Arrays.copyOfRange(words, 1, words.length));
            } else {
                Commands.run(words);
            }
        } catch (Throwable e) {
            e.printStackTrace();
        }
    }

    private void own(String command, String[] words) throws Exception {
        switch (command) {
            case "@producer": // GROUP TRACE-TOPIC, empty for none
                startProducer(words[0], words[1]);
                break;
            case "@send": // GROUP TOPIC QUEUE TAG KEY BODY: prints id, offset id and queue offset
                send(words);
                break;
            case "@consumer": // GROUP TOPIC TAGS
                startConsumer(words[0], words[1], words[2]);
                break;
            case "@consumed": // GROUP: prints the bodies consumed so far
                consumed.get(words[0]).forEach(System.out::println);
                break;
            case "@stop": // GROUP
                stop(words[0]);
                break;
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private void startProducer(String group, String traceTopic) throws Exception {
        DefaultMQProducer producer = traceTopic.isEmpty() ? new DefaultMQProducer(group)
            : new DefaultMQProducer(group, true, traceTopic);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group);
        producer.start();
        producers.put(group, producer);
    }

    private void send(String[] words) throws Exception {
        DefaultMQProducer producer = producers.get(words[0]);
        int queue = Integer.parseInt(words[2]);
        Message message = new Message(words[1], words[3], words[4], words[5].getBytes(StandardCharsets.UTF_8));
        SendResult sent = producer.send(message, (queues, m, id) ->
            queues.stream().filter(q -> q.getQueueId() == (int) id).findAny().get(), queue);
        System.out.println(sent.getMsgId() + " " + sent.getOffsetMsgId() + " " + sent.getQueueOffset());
    }

    private void startConsumer(String group, String topic, String tags) throws Exception {
        List<String> bodies = consumed.computeIfAbsent(group, g -> new CopyOnWriteArrayList<>());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                bodies.add(new String(m.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        consumers.put(group, consumer);
    }

    private void stop(String group) {
        if (producers.containsKey(group)) {
            producers.remove(group).shutdown();
        } else {
            consumers.remove(group).shutdown();
        }
    }

    /** mqadmin with new command objects each time, as in a new JVM: they keep state. */
    private static final class Commands extends MQAdminStartup {
        static void run(String[] words) {
            SUB_COMMANDS.clear();
            // In the tools, but not registered there.
            initCommand(new ResetOffsetByTimeOldCommand());
            main0(words, null);
        }
    }
}
