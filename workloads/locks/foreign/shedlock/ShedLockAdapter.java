import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * ShedLock's RedisLockProvider on the first node, over Spring Data's Lettuce factory with its defaults.
 *
 * <p>The library's bugs are part of what is tested: nothing is fixed here. lock makes one attempt, a SET NX PX, and returns a
 * lock or nothing. The lease lasts until lockAtMostFor has passed since the configuration was made, which the adapter does
 * right before.
 *
 * <p>The library hides the value that it sets. So the value that names a lease is the adapter's own. unlock does not say
 * whether the key was deleted, nor whose it was.
 */
public final class ShedLockAdapter implements FencepostAdapter.Adapter {
    private static final long WARM_UP_S = 10;
    private static final int WARM_UPS = 5;
    private static final String ARTIFACT = "/META-INF/maven/net.javacrumbs.shedlock/shedlock-provider-redis-spring/";

    private final LettuceConnectionFactory connections;
    private final RedisLockProvider provider;
    private final boolean safeUpdate;
    private final String id = Long.toHexString(ProcessHandle.current().pid());
    private final Map<String, SimpleLock> held = new ConcurrentHashMap<>();
    private final AtomicLong leases = new AtomicLong();

    private ShedLockAdapter(FencepostAdapter.Node node, Map<String, Object> settings) {
        safeUpdate = (Boolean) ((Map<?, ?>) settings.get("manifest")).get("safe_update");
        RedisStandaloneConfiguration server = new RedisStandaloneConfiguration(node.host(), node.port());
        server.setPassword(node.password());
        connections = new LettuceConnectionFactory(server);
        connections.afterPropertiesSet();
        connections.start();
        provider = new RedisLockProvider.Builder(connections)
                .environment("fencepost")
                .safeUpdate(safeUpdate)
                .build();
        warmUp();
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve((nodes, settings) -> new ShedLockAdapter(nodes.get(0), settings));
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) {
        FencepostAdapter.TimedCall call = new FencepostAdapter.TimedCall();
        Optional<SimpleLock> lock = lock(key, ttlMs);
        Map<String, Object> bounds = call.end();
        return lock.isPresent()
                ? granted(id + "#" + leases.incrementAndGet(), lock.get(), bounds)
                : FencepostAdapter.fail("lock returned nothing");
    }

    /** Whatever it returns, the lock that was extended cannot be used again. */
    @Override
    public Map<String, Object> extend(String key, String value, long ttlMs) {
        FencepostAdapter.TimedCall call = new FencepostAdapter.TimedCall();
        Optional<SimpleLock> lock = held.get(value).extend(Duration.ofMillis(ttlMs), Duration.ZERO);
        Map<String, Object> bounds = call.end();
        return lock.isPresent() ? granted(value, lock.get(), bounds) : FencepostAdapter.fail("extend returned nothing");
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        try {
            held.remove(value).unlock();
        } catch (IllegalStateException extendedInVain) {
            return FencepostAdapter.fail(extendedInVain.getMessage());
        }
        return FencepostAdapter.ok();
    }

    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields(
                "library", "shedlock-provider-redis-spring " + version(),
                "java", System.getProperty("java.version"),
                "spring-data-redis", LettuceConnectionFactory.class.getPackage().getImplementationVersion(),
                "safe_update", safeUpdate,
                "attempts", 1,
                "timeout_ms", connections.getTimeout());
    }

    private Optional<SimpleLock> lock(String key, long ttlMs) {
        return provider.lock(
                new LockConfiguration(ClockProvider.now(), key, Duration.ofMillis(ttlMs), Duration.ZERO));
    }

    private Map<String, Object> granted(String value, SimpleLock lock, Map<String, Object> bounds) {
        held.put(value, lock);
        Map<String, Object> answer = FencepostAdapter.ok("value", value);
        answer.putAll(bounds);
        return answer;
    }

    /**
     * Locks and unlocks another key, so that no client's first acquire includes connecting or loading classes. A node that
     * is down is left to the library.
     */
    private void warmUp() {
        Runnable warming = () -> {
            for (int i = 0; i < WARM_UPS; i++) {
                lock("fencepost-warm-up-" + id, 1000).ifPresent(SimpleLock::unlock);
            }
        };
        try {
            CompletableFuture.runAsync(warming).get(WARM_UP_S, TimeUnit.SECONDS);
        } catch (Exception down) {
            System.err.println("the node did not reply while connecting: " + down);
        }
    }

    private static String version() {
        try (InputStream file = RedisLockProvider.class.getResourceAsStream(ARTIFACT + "pom.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return properties.getProperty("version");
        } catch (IOException unreadable) {
            throw new IllegalStateException(unreadable);
        }
    }
}
