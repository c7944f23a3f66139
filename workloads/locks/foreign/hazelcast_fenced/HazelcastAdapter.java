import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.cluster.Address;
import com.hazelcast.config.DiscoveryStrategyConfig;
import com.hazelcast.config.properties.PropertyDefinition;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.cp.lock.FencedLock;
import com.hazelcast.cp.lock.exception.LockOwnershipLostException;
import com.hazelcast.instance.BuildInfoProvider;
import com.hazelcast.logging.ILogger;
import com.hazelcast.spi.discovery.AbstractDiscoveryStrategy;
import com.hazelcast.spi.discovery.DiscoveryNode;
import com.hazelcast.spi.discovery.DiscoveryStrategy;
import com.hazelcast.spi.discovery.DiscoveryStrategyFactory;
import com.hazelcast.spi.discovery.SimpleDiscoveryNode;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Hazelcast's FencedLock, in the group that every lock is in by default.
 *
 * <p>A lock is held by a session of the client and a thread, until it is released or the session ends, which the client is
 * told by the next call only. So no time is promised. The library's own answers are passed on: what it says is part of what
 * is tested.
 *
 * <p>If nothing is known of an acquire, the lock may be held by this thread, which would go on unnoticed while the session
 * lives. So the next acquire of that thread first releases what it finds to be its own.
 */
public class HazelcastAdapter implements FencepostAdapter.Renewing {
    private static final long WAIT_MS = 400;
    private static final int ANSWER_S = 5;
    private static final long WARM_UP_S = 10;

    private final HazelcastInstance client;
    private final Map<String, FencedLock> held = new ConcurrentHashMap<>();
    private final Set<Thread> astray = ConcurrentHashMap.newKeySet();
    private final AtomicLong leases = new AtomicLong();

    public HazelcastAdapter(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) throws Exception {
        ClientConfig config = new ClientConfig().setClusterName("fencepost");
        config.setProperty("hazelcast.logging.type", "jdk");
        config.setProperty("hazelcast.discovery.enabled", "true");
        config.setProperty("hazelcast.discovery.public.ip.enabled", "true");
        config.setProperty("hazelcast.client.invocation.timeout.seconds", String.valueOf(ANSWER_S));
        // Otherwise a client that no member answers gives up for ever.
        config.getConnectionStrategyConfig().getConnectionRetryConfig().setClusterConnectTimeoutMillis(Long.MAX_VALUE);
        config.getConnectionStrategyConfig().getConnectionRetryConfig().setMaxBackoffMillis(1000);
        config.getNetworkConfig().setConnectionTimeout(1000);
        config.getNetworkConfig().getDiscoveryConfig()
                .addDiscoveryStrategyConfig(new DiscoveryStrategyConfig(new Links(nodes)));
        client = HazelcastClient.newHazelcastClient(config);
        CompletableFuture.runAsync(this::warmUp).get(WARM_UP_S, TimeUnit.SECONDS);
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(HazelcastAdapter::new);
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) {
        FencedLock lock = lock(key);
        if (astray.contains(Thread.currentThread())) {
            giveBack(lock);
            astray.remove(Thread.currentThread());
        }
        long fence;
        try {
            fence = lock.tryLockAndGetFence(WAIT_MS, TimeUnit.MILLISECONDS);
        } catch (LockOwnershipLostException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        } catch (RuntimeException unknown) {
            astray.add(Thread.currentThread());
            throw unknown;
        }
        if (fence == FencedLock.INVALID_FENCE) {
            return FencepostAdapter.fail("another client holds it");
        }
        String value = fence + "#" + leases.incrementAndGet();
        held.put(value, lock);
        return FencepostAdapter.ok("value", value, "token", fence, "open_ended", true);
    }

    @Override
    public Map<String, Object> held(String key, String value) {
        try {
            return held.get(value).isLockedByCurrentThread()
                    ? FencepostAdapter.ok()
                    : FencepostAdapter.fail("isLockedByCurrentThread returned false");
        } catch (LockOwnershipLostException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        }
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        try {
            held.remove(value).unlock();
        } catch (IllegalMonitorStateException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        } catch (RuntimeException unknown) {
            astray.add(Thread.currentThread());
            throw unknown;
        }
        return FencepostAdapter.ok();
    }

    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields(
                "library", "hazelcast " + BuildInfoProvider.getBuildInfo().getVersion(),
                "java", System.getProperty("java.version"),
                "waits_ms", WAIT_MS,
                "answer_within_s", ANSWER_S);
    }

    private FencedLock lock(String key) {
        return client.getCPSubsystem().getLock(key);
    }

    private static void giveBack(FencedLock lock) {
        try {
            while (lock.isLockedByCurrentThread()) {
                lock.unlock();
            }
        } catch (IllegalMonitorStateException lost) {
            System.err.println("it was lost already: " + lost);
        }
    }

    private void warmUp() {
        FencedLock lock = lock("fencepost-warm-up-" + client.getName());
        lock.lock();
        lock.unlock();
    }

    /** The links of this client, by the addresses at which the members know each other. */
    private record Links(List<FencepostAdapter.Node> nodes) implements DiscoveryStrategyFactory {
        @Override
        public Class<? extends DiscoveryStrategy> getDiscoveryStrategyType() {
            return Strategy.class;
        }

        @Override
        @SuppressWarnings("rawtypes")
        public DiscoveryStrategy newDiscoveryStrategy(DiscoveryNode own, ILogger log, Map<String, Comparable> settings) {
            return new Strategy(log, settings, nodes);
        }

        @Override
        public Collection<PropertyDefinition> getConfigurationProperties() {
            return List.of();
        }
    }

    private static final class Strategy extends AbstractDiscoveryStrategy {
        private final List<FencepostAdapter.Node> nodes;

        @SuppressWarnings("rawtypes")
        Strategy(ILogger log, Map<String, Comparable> settings, List<FencepostAdapter.Node> nodes) {
            super(log, settings);
            this.nodes = nodes;
        }

        @Override
        public Iterable<DiscoveryNode> discoverNodes() {
            List<DiscoveryNode> found = new ArrayList<>();
            try {
                for (FencepostAdapter.Node node : nodes) {
                    Address itself = new Address(node.knownAs().host(), node.knownAs().port());
                    found.add(new SimpleDiscoveryNode(itself, new Address(node.host(), node.port())));
                }
            } catch (UnknownHostException impossible) {
                throw new IllegalStateException(impossible);
            }
            return found;
        }
    }
}
