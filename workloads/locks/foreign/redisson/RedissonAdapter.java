import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.RedissonLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * Redisson's RedLock over an RLock of each node, with an explicit lease time, so without the watchdog.
 *
 * <p>It uses the library's own defaults. The library's bugs are part of what is tested: nothing is fixed here. RedLock is
 * deprecated, but it is the only lock of Redisson's for several independent servers that tolerates the loss of one
 * (MultiLock needs all).
 *
 * <p>tryLock returns only yes or no. When RedLock has the locks of a majority, it sends each of them the lease time
 * (PEXPIRE), waits for the replies and returns. So the lease time counts from some time between the first of these
 * requests and the return. The locks here take a timestamp before that request, and change nothing.
 *
 * <p>A lock is a hash on the node, with a field CLIENT:THREAD, and each node's Redisson client has another id. So the value
 * that names a lease is the adapter's own.
 */
public final class RedissonAdapter implements FencepostAdapter.Adapter {
    private static final long WARM_UP_S = 10;
    private static final int WARM_UPS = 5;
    /** A pool may run a task in the thread that waits for it, which would own the lock already. */
    private static final Executor OWN_THREADS = task -> new Thread(task).start();

    private final List<Redisson> clients = new ArrayList<>();
    private final Map<String, RedissonRedLock> held = new ConcurrentHashMap<>();
    private final long waitMs;
    private final AtomicLong leases = new AtomicLong();

    private RedissonAdapter(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) {
        Map<?, ?> manifest = (Map<?, ?>) settings.getOrDefault("manifest", Map.of());
        Object wait = manifest.get("wait_ms");
        waitMs = wait == null ? 1000 : ((Number) wait).longValue();
        for (FencepostAdapter.Node node : nodes) {
            Config config = new Config();
            // Otherwise a client cannot be created while its node is down.
            config.setLazyInitialization(true);
            config.useSingleServer()
                    .setAddress("redis://" + node.host() + ":" + node.port())
                    .setPassword(node.password());
            clients.add((Redisson) Redisson.create(config));
        }
        warmUp(clients);
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(RedissonAdapter::new);
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws InterruptedException {
        Grant grant = new Grant();
        RedissonRedLock lock =
                new RedissonRedLock(clients.stream().map(client -> grant.of(client, key)).toArray(RedissonLock[]::new));
        if (!lock.tryLock(waitMs, ttlMs, TimeUnit.MILLISECONDS)) {
            return FencepostAdapter.fail("tryLock returned false");
        }
        long returnedNs = System.nanoTime();
        String value = clients.get(0).getId() + "#" + leases.incrementAndGet();
        held.put(value, lock);
        return FencepostAdapter.ok(
                "value", value,
                "computed_after_ns", grant.firstExpireNs,
                "computed_before_ns", returnedNs);
    }

    /** RedLock does not report whether an unlock succeeded, even when no node could be reached. */
    @Override
    public Map<String, Object> release(String key, String value) {
        held.remove(value).unlock();
        return FencepostAdapter.ok();
    }

    /** The limit is tryLock's waitTime: by its documentation, "the maximum time to acquire the lock". */
    @Override
    public Map<String, Object> describe() {
        BaseConfig<?> config = new Config().useSingleServer();
        return FencepostAdapter.fields(
                "library", "redisson " + Redisson.class.getPackage().getImplementationVersion(),
                "java", System.getProperty("java.version"),
                "acquire_limit_ms", waitMs,
                "wait_ms", waitMs,
                "timeout_ms", config.getTimeout(),
                "connect_timeout_ms", config.getConnectTimeout(),
                "retry_attempts", config.getRetryAttempts());
    }

    /**
     * Locks and unlocks another key on every node, and waits for it in another thread, so that no client's first acquire
     * includes connecting, loading classes or loading scripts. A node that is down is left to the library.
     */
    private static void warmUp(List<? extends RedissonClient> clients) {
        CompletableFuture<?>[] warmed = clients.stream()
                .map(client -> CompletableFuture.runAsync(() -> warmUp(client), OWN_THREADS))
                .toArray(CompletableFuture[]::new);
        try {
            CompletableFuture.allOf(warmed).get(WARM_UP_S, TimeUnit.SECONDS);
        } catch (Exception down) {
            System.err.println("a node did not reply while connecting: " + down);
        }
    }

    private static void warmUp(RedissonClient client) {
        RLock lock = client.getLock("fencepost-warm-up-" + client.getId());
        for (int i = 0; i < WARM_UPS; i++) {
            lock.lock(1, TimeUnit.SECONDS);
            CompletableFuture.supplyAsync(() -> waitsInVain(lock), OWN_THREADS).join();
            lock.unlock();
        }
    }

    private static boolean waitsInVain(RLock lock) {
        try {
            return !lock.tryLock(20, 1000, TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** Timestamps one acquire. */
    private static final class Grant {
        /** Before RedLock asked the first node for the lease time; 0: it has not yet. */
        long firstExpireNs;

        RedissonLock of(Redisson client, String key) {
            return new RedissonLock(client.getCommandExecutor(), key) {
                @Override
                public RFuture<Boolean> expireAsync(long timeToLive, TimeUnit timeUnit) {
                    if (firstExpireNs == 0) {
                        firstExpireNs = System.nanoTime();
                    }
                    return super.expireAsync(timeToLive, timeUnit);
                }
            };
        }
    }
}
