package castor.interop;

import static castor.interop.Kit.message;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;

/** Batches and compressed bodies. */
final class BatchCases {
    static final List<Case> CASES = List.of(
        Case.shared("batch.send", BatchCases::batch),
        Case.shared("batch.delay-refused", BatchCases::delayRefused),
        Case.shared("compress.zlib", kit -> compress(kit, CompressionType.ZLIB)),
        Case.shared("compress.lz4", kit -> compress(kit, CompressionType.LZ4)),
        Case.shared("compress.zstd", kit -> compress(kit, CompressionType.ZSTD)));

    private static final int COUNT = 100;

    private BatchCases() {
    }

    private static void batch(Kit kit) throws Exception {
        String topic = kit.topic(1);
        kit.send(message(topic, "before"));
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            Message m = new Message(topic, "tag" + i % 3, "key" + i, ("b" + i).getBytes(UTF_8));
            m.putUserProperty("n", "" + i);
            batch.add(m);
        }
        SendResult result = kit.producer().send(batch);
        Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "send status");
        Check.equal(1L, result.getQueueOffset(), "first offset");
        String[] ids = result.getMsgId().split(",");
        String[] offsetIds = result.getOffsetMsgId().split(",");
        Check.equal(COUNT, ids.length, "message ids");
        Check.equal(COUNT, offsetIds.length, "offset ids");

        kit.awaitTotal(topic, 1, COUNT + 1);
        List<MessageExt> stored = kit.read(topic, 0);
        for (int i = 0; i < COUNT; i++) {
            MessageExt m = stored.get(i + 1);
            Check.equal("b" + i, Kit.text(m), "body");
            Check.equal(i + 1L, m.getQueueOffset(), "queue offset");
            Check.equal("tag" + i % 3, m.getTags(), "tag");
            Check.equal("" + i, m.getUserProperty("n"), "property");
            Check.equal(ids[i], m.getMsgId(), "unique id");
        }
        for (int i = 0; i < COUNT; i += 20) {
            Check.equal("b" + i, Kit.text(kit.producer().viewMessage(topic, offsetIds[i])), "body by offset id");
            QueryCases.awaitKey(kit, topic, "key" + i, List.of("b" + i));
        }
    }

    /** A delay level has no meaning for a batch: Java refuses it in the header, Castor also inside of the batch. */
    private static void delayRefused(Kit kit) throws Exception {
        String topic = kit.topic(1);
        SendMessageRequestHeader outer = batchHeader(topic);
        outer.setProperties(MessageDecoder.messageProperties2String(Map.of("DELAY", "2")));
        byte[] plain = MessageDecoder.encodeMessages(List.of(message(topic, "x")));
        Check.equal(ResponseCode.MESSAGE_ILLEGAL, SendCases.send(kit, outer, plain).getCode(), "delay in the header");
        if (kit.env.castor) {
            Message delayed = message(topic, "x");
            delayed.setDelayTimeLevel(2);
            RemotingCommand answer =
                SendCases.send(kit, batchHeader(topic), MessageDecoder.encodeMessages(List.of(delayed)));
            Check.equal(ResponseCode.MESSAGE_ILLEGAL, answer.getCode(), "delay inside");
        }
        Check.equal(0L, kit.max(topic, 0), "nothing stored");
    }

    private static SendMessageRequestHeader batchHeader(String topic) {
        SendMessageRequestHeader header = SendCases.header(topic, 0);
        header.setBatch(true);
        return header;
    }

    /** The consumer sees the original body, also after a retry, which the broker makes from the stored record. */
    private static void compress(Kit kit, CompressionType type) throws Exception {
        String topic = kit.topic(1);
        String group = kit.knownGroup(topic);
        String body = "compress me ".repeat(2000);
        DefaultMQProducer producer = kit.producer(p -> p.setCompressType(type));
        producer.send(message(topic, body));
        Inbox inbox = new Inbox();
        kit.push(group, c -> {
            c.subscribe(topic, "*");
            c.registerMessageListener(RetryCases.sendBack(inbox, m -> 1));
        });
        inbox.awaitCount(Check.SOON, 2);
        for (Inbox.Received r : inbox.all()) {
            Check.equal(body, r.body(), "body");
            Check.equal(type, MessageSysFlag.getCompressionType(r.message().getSysFlag()), "compression type");
            Check.that(r.message().getStoreSize() < body.length() / 4, "stored small");
        }
    }
}
