import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;

/**
 * Spring Integration's RedisLockRegistry on the first node, over Lettuce, with the defaults of all three: SPIN_LOCK, or with
 * [settings] PUB_SUB_LOCK.
 *
 * <p>The library's bugs are part of what is tested: nothing is fixed here. tryLock returns only yes or no, and tries again
 * until its time is up. Each attempt is one script, for which the library asks the factory for a connection. So the lease
 * counts from some time between then and the return.
 *
 * <p>The value on the node is the registry's id, the same for all of its leases. So the value that names a lease is the
 * adapter's own.
 *
 * <p>The library can renew a lease by itself (setRenewalTaskScheduler), but says nowhere whether a lock is still held. So
 * there is no --renewal.
 */
public final class SpringIntegrationAdapter implements FencepostAdapter.Adapter {
    private static final long WARM_UP_S = 10;
    private static final int WARM_UPS = 5;

    private final NotingFactory connections = new NotingFactory();
    private final RedisLockType kind;
    private final Duration wait;
    private final RedisLockRegistry registry;
    private final String id = Long.toHexString(ProcessHandle.current().pid());
    private final Map<String, DistributedLock> held = new ConcurrentHashMap<>();
    private final AtomicLong leases = new AtomicLong();

    private SpringIntegrationAdapter(FencepostAdapter.Node node, Map<String, Object> settings) {
        Map<?, ?> manifest = (Map<?, ?>) settings.get("manifest");
        kind = RedisLockType.valueOf((String) manifest.get("kind"));
        wait = Duration.ofMillis((Long) manifest.get("wait_ms"));
        RedisStandaloneConfiguration server = connections.getStandaloneConfiguration();
        server.setHostName(node.host());
        server.setPort(node.port());
        server.setPassword(node.password());
        connections.afterPropertiesSet();
        connections.start();
        registry = registry();
        warmUp();
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve((nodes, settings) -> new SpringIntegrationAdapter(nodes.get(0), settings));
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws InterruptedException {
        DistributedLock lock = registry.obtain(key);
        boolean granted = lock.tryLock(wait, Duration.ofMillis(ttlMs));
        long returnedNs = System.nanoTime();
        if (!granted) {
            return FencepostAdapter.fail("tryLock returned false");
        }
        String value = id + "#" + leases.incrementAndGet();
        held.put(value, lock);
        return FencepostAdapter.ok(
                "value", value,
                "computed_after_ns", connections.askedNs.get(),
                "computed_before_ns", returnedNs);
    }

    @Override
    public Map<String, Object> extend(String key, String value, long ttlMs) {
        FencepostAdapter.TimedCall call = new FencepostAdapter.TimedCall();
        try {
            registry.renewLock(key, Duration.ofMillis(ttlMs));
        } catch (IllegalStateException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        }
        Map<String, Object> answer = FencepostAdapter.ok("value", value);
        answer.putAll(call.end());
        return answer;
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        try {
            held.remove(value).unlock();
        } catch (ConcurrentModificationException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        }
        return FencepostAdapter.ok();
    }

    /** The limit is tryLock's waitTime: by its documentation, "the maximum time to wait for the lock". */
    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields(
                "library", "spring-integration-redis " + versionOf(RedisLockRegistry.class),
                "java", System.getProperty("java.version"),
                "spring-data-redis", versionOf(LettuceConnectionFactory.class),
                "lock", kind.name(),
                "acquire_limit_ms", wait.toMillis(),
                "timeout_ms", connections.getTimeout());
    }

    private RedisLockRegistry registry() {
        RedisLockRegistry made = new RedisLockRegistry(connections, "locks");
        made.setRedisLockType(kind);
        return made;
    }

    /**
     * Locks and unlocks another key, and waits for it in vain, so that no client's first acquire includes connecting,
     * loading classes or subscribing. A node that is down is left to the library.
     */
    private void warmUp() {
        RedisLockRegistry other = registry();
        Runnable warming = () -> {
            for (int i = 0; i < WARM_UPS; i++) {
                DistributedLock mine = registry.obtain("fencepost-warm-up-" + id);
                DistributedLock others = other.obtain("fencepost-warm-up-" + id);
                others.lock(Duration.ofSeconds(1));
                waitInVain(mine);
                others.unlock();
                mine.lock(Duration.ofSeconds(1));
                mine.unlock();
            }
        };
        try {
            CompletableFuture.runAsync(warming).get(WARM_UP_S, TimeUnit.SECONDS);
        } catch (Exception down) {
            System.err.println("the node did not reply while connecting: " + down);
        }
        other.destroy();
    }

    private static void waitInVain(DistributedLock lock) {
        try {
            lock.tryLock(Duration.ofMillis(20), Duration.ofSeconds(1));
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static String versionOf(Class<?> type) {
        return type.getPackage().getImplementationVersion();
    }

    /** Notes when a thread last asked for a connection, and changes nothing else. */
    private static final class NotingFactory extends LettuceConnectionFactory {
        final ThreadLocal<Long> askedNs = new ThreadLocal<>();

        @Override
        public RedisConnection getConnection() {
            askedNs.set(System.nanoTime());
            return super.getConnection();
        }
    }
}
