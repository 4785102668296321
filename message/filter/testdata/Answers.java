package org.apache.rocketmq.filter.parser;

import com.alibaba.fastjson2.JSON;
import java.nio.file.*;
import java.util.*;
import org.apache.rocketmq.filter.expression.*;

/**
 * Fills in answers.txt. With the jars of Apache RocketMQ 5.5.0 in lib:
 * javac -cp 'lib/*' -d out Answers.java; java -cp 'out:lib/*' org.apache.rocketmq.filter.parser.Answers answers.txt.
 * It stands in the parser's package to see whether the parser took the whole text.
 */
public class Answers {
    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[0]);
        List<Map<String, Object>> messages = new ArrayList<>();
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            if (line.startsWith("{")) {
                messages.add(JSON.parseObject(line));
            } else if (!line.startsWith("#")) {
                String quoted = line.substring(line.indexOf('"'));
                line = answers((String) JSON.parse(quoted), messages) + " " + quoted;
            }
            out.add(line);
        }
        Files.write(file, out);
    }

    static String answers(String text, List<Map<String, Object>> messages) {
        BooleanExpression expression;
        ComparisonExpression.CONVERT_STRING_EXPRESSIONS.set(true);
        try {
            SelectorParser parser = new SelectorParser(text);
            expression = parser.parse();
            if (parser.getNextToken().kind != 0) {
                return "prefix";
            }
        } catch (Throwable e) {
            return "refused";
        }
        StringBuilder answers = new StringBuilder();
        for (Map<String, Object> message : messages) {
            answers.append(answer(expression, message));
        }
        return answers.toString();
    }

    static char answer(BooleanExpression expression, Map<String, Object> message) {
        try {
            Object result = expression.evaluate(new EvaluationContext() {
                public Object get(String name) {
                    return message.get(name);
                }

                public Map<String, Object> keyValues() {
                    return message;
                }
            });
            return result == null ? 'N' : result == Boolean.TRUE ? 'T' : 'F';
        } catch (ClassCastException e) {
            return 'C';
        } catch (Exception e) {
            return 'E';
        }
    }
}
