package castor.interop.wayback;

import java.util.Map;

/** Names and numbers that writer and reader share. */
final class Plan {
    /** Queues of each topic. */
    static final Map<String, Integer> TOPICS = Map.of("WaybackMany", 4, "WaybackTags", 3, "WaybackBatch", 1, "WaybackDelay", 2, "WaybackRetry", 2);
    static final int MESSAGES = 400;
    static final int TAGS = 4;
    static final int BATCHES = 5;
    static final int BATCH = 10;
    static final int FEW = 3;

    /** Reads WaybackMany to the half. */
    static final String HALF_GROUP = "WaybackHalfGroup";
    /** Consumes WaybackRetry, each message in the way that its tag says. */
    static final String RETRY_GROUP = "WaybackRetryGroup";
    static final String GOOD = "good";
    static final String LATER = "later";
    static final String DEAD = "dead";

    /** The delay level that has passed before the broker is stopped, and the one that has not. */
    static final int SHORT = 1;
    static final int LONG = 2;

    /** A user property, with characters of several bytes. */
    static final String SIZE = "größe";

    private Plan() { }
}
