import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Attempts;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * Redisson's lock of one server, on the first node: RLock, or with [settings] RFencedLock, RReadWriteLock or the fair lock.
 *
 * <p>It uses the library's own defaults. The library's bugs are part of what is tested: nothing is fixed here. tryLock has a
 * lease time, which is the TTL, so the watchdog does not renew. With --renewal it has none, and the watchdog renews every
 * third of lockWatchdogTimeout, which is the TTL; the adapter answers what isHeldByCurrentThread says.
 *
 * <p>tryLock returns only yes or no. While somebody else has the lock it waits for a message, and asks again. So the lease
 * counts from some time between the attempt that succeeded, which was the last one, and the return.
 *
 * <p>A lock is a hash on the node, with a field CLIENT:THREAD, which is the same for all leases of one thread. So the value
 * that names a lease is the adapter's own.
 */
public final class RedissonLockAdapter implements FencepostAdapter.Renewing {
    private static final long WARM_UP_S = 10;
    private static final int WARM_UPS = 5;
    private static final String READ_WRITE = "RReadWriteLock";
    /** A pool may run a task in the thread that waits for it, which would own the lock already. */
    private static final Executor OWN_THREADS = task -> new Thread(task).start();

    private final Redisson client;
    private final String kind;
    private final long waitMs;
    private final boolean renews;
    private final Map<String, RLock> held = new ConcurrentHashMap<>();
    private final AtomicLong leases = new AtomicLong();

    private RedissonLockAdapter(FencepostAdapter.Node node, Map<String, Object> settings) {
        Map<?, ?> manifest = (Map<?, ?>) settings.get("manifest");
        kind = (String) manifest.get("kind");
        waitMs = (Long) manifest.get("wait_ms");
        renews = settings.get("renewal_ms") != null;
        Config config = new Config();
        // Otherwise a client cannot be created while its node is down.
        config.setLazyInitialization(true);
        config.setLockWatchdogTimeout((Long) settings.get("ttl_ms"));
        config.useSingleServer()
                .setAddress("redis://" + node.host() + ":" + node.port())
                .setPassword(node.password());
        client = (Redisson) Redisson.create(config);
        warmUp();
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve((nodes, settings) -> new RedissonLockAdapter(nodes.get(0), settings));
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws InterruptedException {
        Attempts attempts = new Attempts();
        return acquire(attempts, lock(attempts, key), ttlMs);
    }

    @Override
    public Map<String, Object> acquireShared(String key, long ttlMs) throws Exception {
        if (!kind.equals(READ_WRITE)) {
            return FencepostAdapter.Renewing.super.acquireShared(key, ttlMs);
        }
        Attempts attempts = new Attempts();
        return acquire(attempts, attempts.read(client, key), ttlMs);
    }

    private Map<String, Object> acquire(Attempts attempts, RLock lock, long ttlMs) throws InterruptedException {
        long leaseMs = renews ? -1 : ttlMs; // as in the library: -1 has the watchdog renew
        Long token = null;
        boolean granted;
        if (lock instanceof RFencedLock fenced) {
            token = fenced.tryLockAndGetToken(waitMs, leaseMs, TimeUnit.MILLISECONDS);
            granted = token != null;
        } else {
            granted = lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS);
        }
        long returnedNs = System.nanoTime();
        if (!granted) {
            return FencepostAdapter.fail("tryLock returned false");
        }
        String value = client.getId() + "#" + leases.incrementAndGet();
        held.put(value, lock);
        Map<String, Object> answer = FencepostAdapter.ok(
                "value", value,
                "computed_after_ns", attempts.lastNs(),
                "computed_before_ns", returnedNs);
        if (token != null) {
            answer.put("token", token);
        }
        return answer;
    }

    @Override
    public Map<String, Object> held(String key, String value) {
        return held.get(value).isHeldByCurrentThread()
                ? FencepostAdapter.ok()
                : FencepostAdapter.fail("isHeldByCurrentThread returned false");
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        try {
            held.remove(value).unlock();
        } catch (IllegalMonitorStateException lost) {
            return FencepostAdapter.fail(lost.getMessage());
        }
        return FencepostAdapter.ok();
    }

    /** The limit is tryLock's waitTime: by its documentation, "the maximum time to acquire the lock". */
    @Override
    public Map<String, Object> describe() {
        BaseConfig<?> config = new Config().useSingleServer();
        return FencepostAdapter.fields(
                "library", "redisson " + Redisson.class.getPackage().getImplementationVersion(),
                "java", System.getProperty("java.version"),
                "lock", kind,
                "acquire_limit_ms", waitMs,
                "renews_after", renews ? "TTL / 3" : "never",
                "timeout_ms", config.getTimeout(),
                "connect_timeout_ms", config.getConnectTimeout(),
                "retry_attempts", config.getRetryAttempts());
    }

    private RLock lock(Attempts attempts, String key) {
        return switch (kind) {
            case "RLock" -> attempts.lock(client, key);
            case "RFencedLock" -> attempts.fenced(client, key);
            case "fair RLock" -> attempts.fair(client, key);
            case READ_WRITE -> attempts.write(client, key);
            default -> throw new IllegalArgumentException("no lock of Redisson's is called " + kind);
        };
    }

    /**
     * Locks and unlocks another key, and waits for it in another thread, so that no client's first acquire includes
     * connecting, loading classes or loading scripts. A node that is down is left to the library.
     */
    private void warmUp() {
        RLock lock = client.getLock("fencepost-warm-up-" + client.getId());
        Runnable warming = () -> {
            for (int i = 0; i < WARM_UPS; i++) {
                lock.lock(1, TimeUnit.SECONDS);
                CompletableFuture.runAsync(() -> waitInVain(lock), OWN_THREADS).join();
                lock.unlock();
            }
        };
        try {
            CompletableFuture.runAsync(warming, OWN_THREADS).get(WARM_UP_S, TimeUnit.SECONDS);
        } catch (Exception down) {
            System.err.println("the node did not reply while connecting: " + down);
        }
    }

    private static void waitInVain(RLock lock) {
        try {
            lock.tryLock(20, 1000, TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
