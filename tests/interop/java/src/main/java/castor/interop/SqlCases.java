package castor.interop;

import static castor.interop.Kit.message;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.CheckClientRequestBody;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/** SQL92 filters. */
final class SqlCases {
    static final List<Case> CASES = List.of(
        Case.shared("sql.matrix", SqlCases::matrix),
        Case.shared("sql.push", SqlCases::push),
        Case.shared("sql.bad-syntax", SqlCases::badSyntax));

    /** The properties of message 0, 1, and so on. */
    private static final List<Map<String, String>> MESSAGES = List.of(
        Map.of("a", "5", "s", "abc", "b", "true"),
        Map.of("a", "10", "s", "abd", "b", "false"),
        Map.of("a", "x", "s", "it's"),
        Map.of("s", "abc", "f", "5.5"),
        Map.of("a", "-3", "f", "0.5", "b", "TRUE"),
        Map.of("a", "3000000000", "f", "1e3"),
        Map.of("other", "1"));

    /** An expression and the messages that it selects. */
    private record Row(String expression, int... selected) {
    }

    private static final List<Row> MATRIX = List.of(
        new Row("a = 5", 0),
        new Row("a = 10 OR a = -3", 1, 4),
        new Row("a > 3", 0, 1),
        new Row("a >= 5 AND a < 3000000001", 0, 1),
        new Row("a > 3000000000L"),
        new Row("a >= 3000000000", 5),
        new Row("a > 4.5", 0, 1, 5),
        new Row("f > 5"),
        new Row("f > 5.0", 3, 5),
        new Row("f < 1.0", 4),
        new Row("f = 5.5", 3),
        new Row("a <> 5", 1, 4),
        new Row("s <> 'abc'", 1, 2),
        new Row("s = 'abc'", 0, 3),
        new Row("s = 'ABC'"),
        new Row("S = 'abc'"),
        new Row("s = 'it''s'", 2),
        new Row("'abc' = s", 0, 3),
        new Row("'abc' <> s", 1, 2, 4, 5, 6),
        new Row("s IN ('abc', 'abd')", 0, 1, 3),
        new Row("s NOT IN ('abc', 'abd')", 2),
        new Row("a IN ('5')", 0),
        new Row("a BETWEEN 5 AND 10", 0, 1),
        new Row("a NOT BETWEEN 5 AND 10", 4),
        new Row("f BETWEEN 0.1 AND 5.5", 3, 4),
        new Row("a IS NULL", 3, 6),
        new Row("a IS NOT NULL", 0, 1, 2, 4, 5),
        new Row("a IS NULL AND s IS NOT NULL", 3),
        new Row("b = TRUE", 0, 4),
        new Row("b = FALSE", 1),
        new Row("b"),
        new Row("TRUE", 0, 1, 2, 3, 4, 5, 6),
        new Row("FALSE"),
        new Row("NOT (s = 'abc')", 1, 2),
        new Row("NOT (a IS NULL)", 0, 1, 2, 4, 5),
        new Row("s CONTAINS 'b'", 0, 1, 3),
        new Row("s NOT CONTAINS 'b'", 2),
        new Row("s STARTSWITH 'ab'", 0, 1, 3),
        new Row("s NOT STARTSWITH 'ab'", 2),
        new Row("s ENDSWITH 'c'", 0, 3),
        new Row("s ENDSWITH ''"),
        new Row("a = 5 OR s = 'it''s'", 0),
        new Row("s = 'it''s' OR a = 5", 0, 2),
        new Row("s = 'abc' AND (a = 5 OR f = 5.5)", 0, 3),
        new Row("a is not null and not (s is null) /* both */ -- done\n", 0, 1, 2),
        new Row("(a > 1) AND ((b = TRUE) OR (b = FALSE))", 0, 1),
        new Row("missing > 5 OR s = 'abd'", 1),
        new Row("missing > 5 AND s = 'abd'"),
        new Row("TAGS = 't' AND a = 5", 0));

    private static final List<String> BAD = List.of(
        "a >", "a > 5 AND", "(a > 5", "a = NULL", "NOT a > 5", "a > '5'", "a > TRUE", "a BETWEEN 5 AND 1",
        "5 IN ('a')", "a IN (1, 2)", "a = 9223372036854775808", "'x'", "5", "= 5", "a IN ()");

    private SqlCases() {
    }

    private static String topicWithMessages(Kit kit) throws Exception {
        String topic = kit.topic(1);
        for (int i = 0; i < MESSAGES.size(); i++) {
            Message m = message(topic, "" + i);
            m.setTags("t");
            MESSAGES.get(i).forEach(m::putUserProperty);
            kit.send(m, 0);
        }
        kit.awaitTotal(topic, 1, MESSAGES.size());
        return topic;
    }

    private static void matrix(Kit kit) throws Exception {
        String topic = topicWithMessages(kit);
        // The client refuses SQL until a heartbeat has told it the broker's version.
        Check.await(Check.SOON, "client knows the broker's version", () -> pull(kit, topic, "TRUE") != null);
        List<String> wrong = new ArrayList<>();
        for (Row row : MATRIX) {
            List<String> want = new ArrayList<>();
            for (int i : row.selected) {
                want.add("" + i);
            }
            PullResult result = pull(kit, topic, row.expression);
            List<String> got = FilterCases.bodies(result);
            if (!want.equals(got) || result.getNextBeginOffset() != MESSAGES.size()) {
                wrong.add("{" + row.expression + "}: want " + want + ", got " + got);
            }
        }
        Check.that(wrong.isEmpty(), "wrong selections: " + wrong);
    }

    private static PullResult pull(Kit kit, String topic, String expression) throws Exception {
        return kit.env.reader.pull(kit.queue(topic, 0), MessageSelector.bySql(expression), 0, 32);
    }

    private static void push(Kit kit) throws Exception {
        String topic = topicWithMessages(kit);
        Inbox inbox = new Inbox();
        kit.push(kit.name("group"), c -> {
            c.subscribe(topic, MessageSelector.bySql("a > 3 AND s STARTSWITH 'ab'"));
            c.registerMessageListener(inbox.accept());
        });
        inbox.await(Check.SOON, Set.of("0", "1"));
        Message late = message(topic, "late");
        late.putUserProperty("a", "7");
        late.putUserProperty("s", "ab");
        Message foreign = message(topic, "foreign");
        foreign.putUserProperty("a", "1");
        kit.send(foreign, 0);
        kit.send(late, 0);
        inbox.await(Check.SOON, Set.of("late"));
        List<String> bodies = new ArrayList<>(inbox.bodies());
        Collections.sort(bodies); // the listener is a concurrent one
        Check.equal(List.of("0", "1", "late"), bodies, "bodies");
    }

    private static void badSyntax(Kit kit) throws Exception {
        String topic = kit.topic(1);
        String group = kit.name("group");
        Check.fails(ResponseCode.SUBSCRIPTION_PARSE_FAILED, () -> kit.push(group, c -> {
            c.subscribe(topic, MessageSelector.bySql("a > 5 AND"));
            c.registerMessageListener(new Inbox().accept());
        }));
        List<String> wrong = new ArrayList<>();
        for (String expression : BAD) {
            int code = check(kit, group, topic, expression);
            if (code != ResponseCode.SUBSCRIPTION_PARSE_FAILED) {
                wrong.add("{" + expression + "}: code " + code);
            }
        }
        Check.that(wrong.isEmpty(), "accepted: " + wrong);
        Check.equal(ResponseCode.SUCCESS, check(kit, group, topic, "a > 5"), "code of a right expression");
    }

    /** The answer to the check that consumers make at their start. */
    static int check(Kit kit, String group, String topic, String expression) throws Exception {
        SubscriptionData subscription = new SubscriptionData(topic, expression);
        subscription.setExpressionType(ExpressionType.SQL92);
        CheckClientRequestBody body = new CheckClientRequestBody();
        body.setClientId("interop");
        body.setGroup(group);
        body.setSubscriptionData(subscription);
        return kit.call(RequestCode.CHECK_CLIENT_CONFIG, null, body.encode()).getCode();
    }
}
