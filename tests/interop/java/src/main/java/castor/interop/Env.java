package castor.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What all cases share: the cluster's addresses, an admin client, a producer and a reader with default settings. */
final class Env implements AutoCloseable {
    /** How often clients ask for routes, send heartbeats and commit offsets: by default 30 s, 30 s and 5 s. */
    private static final int CLIENT_INTERVAL_MS = 1000;
    private static final AtomicInteger INSTANCES = new AtomicInteger();
    private static final BufferedReader STDIN = new BufferedReader(new InputStreamReader(System.in));

    final String namesrv;
    /** Whether the cluster is Castor's, for the few places where it is stricter than Java on purpose. */
    final boolean castor = !"java".equals(System.getenv("IMPL"));
    final DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
    final DefaultMQProducer producer = new DefaultMQProducer("interop-producer");
    final DefaultMQPullConsumer reader = new DefaultMQPullConsumer("interop-reader");
    final NettyRemotingClient remoting = new NettyRemotingClient(new NettyClientConfig());
    final String clusterName;
    final String brokerName;
    /** Whether masters are killed all the time. */
    final boolean turmoil = System.getenv("TURMOIL") != null;
    /** Of the master. */
    volatile String brokerAddress;
    /** Null where the suite has no replicas. */
    Switchover switchover;

    Env(String namesrv) throws Exception {
        this.namesrv = namesrv;
        configure(admin).start();
        configure(producer).start();
        configure(reader).start();
        remoting.start();
        ClusterInfo info = admin.examineBrokerClusterInfo();
        BrokerData broker = info.getBrokerAddrTable().values().iterator().next();
        clusterName = broker.getCluster();
        brokerName = broker.getBrokerName();
        brokerAddress = broker.selectBrokerAddr();
    }

    /** Gives a client the cluster's address and a name of its own, so that clients in this process are strangers. */
    <T extends ClientConfig> T configure(T client) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName("interop-" + ProcessHandle.current().pid() + "-" + INSTANCES.incrementAndGet());
        client.setPollNameServerInterval(CLIENT_INTERVAL_MS);
        client.setHeartbeatBrokerInterval(CLIENT_INTERVAL_MS);
        client.setPersistConsumerOffsetInterval(CLIENT_INTERVAL_MS);
        return client;
    }

    /** The address of the present master. */
    String master() throws Exception {
        if (turmoil) {
            String address = admin.examineBrokerClusterInfo().getBrokerAddrTable().get(brokerName).getBrokerAddrs().get(0L);
            brokerAddress = address == null ? brokerAddress : address;
        }
        return brokerAddress;
    }

    /** Has the runner kill the broker with SIGKILL and start it again; returns when it is registered. */
    void restartBroker() throws IOException {
        System.out.println("@RESTART broker");
        System.out.flush();
        Check.equal("ok", STDIN.readLine(), "restart of the broker");
    }

    @Override
    public void close() {
        reader.shutdown();
        producer.shutdown();
        admin.shutdown();
        remoting.shutdown();
    }
}
