package castor.interop;

/**
 * A named test case.
 *
 * @param alone whether the case must not share the cluster with others while it runs: it measures time, changes the
 *     broker's configuration, or restarts it
 */
record Case(String name, boolean alone, Body body) {
    interface Body {
        void run(Kit kit) throws Exception;
    }

    static Case shared(String name, Body body) {
        return new Case(name, false, body);
    }

    static Case alone(String name, Body body) {
        return new Case(name, true, body);
    }
}
