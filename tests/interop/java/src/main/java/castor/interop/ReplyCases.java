package castor.interop;

import static castor.interop.Kit.message;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/** Request and reply. */
final class ReplyCases {
    static final List<Case> CASES = List.of(
        Case.shared("reply.request", ReplyCases::request),
        Case.shared("reply.nobody-answers", ReplyCases::nobodyAnswers),
        Case.shared("reply.requester-gone", ReplyCases::requesterGone));

    private static final long TIMEOUT_MS = 10_000;

    private ReplyCases() {
    }

    private static void request(Kit kit) throws Exception {
        String topic = kit.topic(2);
        DefaultMQProducer responder = kit.producer(p -> { });
        DefaultMQProducer requester = kit.producer(p -> { });
        Inbox inbox = new Inbox();
        kit.push(kit.name("group"), topic, inbox.listener(m -> {
            try {
                Message reply = MessageUtil.createReplyMessage(m, ("re: " + Kit.text(m)).getBytes(UTF_8));
                reply.putUserProperty("n", "7");
                responder.send(reply);
                return true;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }));
        Message reply = requester.request(message(topic, "warm up"), TIMEOUT_MS);
        Check.equal("re: warm up", Kit.text(reply), "reply");
        Check.equal("7", reply.getUserProperty("n"), "property of the reply");
        Check.that(reply.getProperty(MessageConst.PROPERTY_PUSH_REPLY_TIME) != null, "time of the push is set");
        long start = System.nanoTime();
        Check.equal("re: sync", Kit.text(requester.request(message(topic, "sync"), TIMEOUT_MS)), "reply");
        Check.between(0, 1000, (System.nanoTime() - start) / 1_000_000, "ms until the reply");

        CompletableFuture<Message> async = new CompletableFuture<>();
        requester.request(message(topic, "async"), new RequestCallback() {
            @Override
            public void onSuccess(Message m) {
                // The client also calls this with null, when the request has been sent.
                if (m != null) {
                    async.complete(m);
                }
            }

            @Override
            public void onException(Throwable e) {
                async.completeExceptionally(e);
            }
        }, TIMEOUT_MS);
        Check.equal("re: async", Kit.text(async.get(TIMEOUT_MS, TimeUnit.MILLISECONDS)), "reply to the callback");
    }

    private static void nobodyAnswers(Kit kit) throws Exception {
        String topic = kit.topic(1);
        try {
            kit.producer().request(message(topic, "?"), 500);
            throw new AssertionError("a reply without a responder");
        } catch (RequestTimeoutException expected) {
            Check.that(expected.getMessage() != null, "a reason");
        }
    }

    private static void requesterGone(Kit kit) throws Exception {
        String topic = kit.topic(1);
        DefaultMQProducer requester = kit.producer(p -> { });
        try {
            requester.request(message(topic, "bye"), 500);
            throw new AssertionError("a reply without a responder");
        } catch (RequestTimeoutException expected) {
            requester.shutdown();
        }
        MessageExt request = kit.read(topic, 0).get(0);
        Message reply = MessageUtil.createReplyMessage(request, "late".getBytes(UTF_8));
        String client = MessageUtil.getReplyToClient(request);
        String remark = Check.fails(ResponseCode.SYSTEM_ERROR, () -> kit.producer().send(reply));
        Check.contains("push reply message fail, channel of <" + client + "> not found.", remark);
    }
}
