import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's InterProcessMutex: an ephemeral node in a queue, which ZooKeeper deletes when the session of its client ends.
 *
 * <p>What a mutex says of itself comes out of its own memory, also when the session was lost: isOwnedByCurrentThread() stays
 * true, another acquire() returns at once, and release() returns as always. So neither is asked: the node of a lease belongs
 * to one session, and a lease whose node the server no longer has is not held. Its creation (czxid) is the token.
 */
public class CuratorAdapter implements FencepostAdapter.Renewing {
    private static final int WAIT_MS = 400;
    private static final int WARM_UP_S = 10;
    private static final int RETRY_MS = 100;
    private static final int RETRIES = 3;

    protected final Map<String, Lease> held = new ConcurrentHashMap<>();
    private final CuratorFramework client;
    private final Map<String, Mutex> mutexes = new ConcurrentHashMap<>();
    private final AtomicLong leases = new AtomicLong();

    public CuratorAdapter(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) throws Exception {
        int sessionMs = ((Long) settings.get("ttl_ms")).intValue();
        client = CuratorFrameworkFactory.builder()
                .connectString(nodes.stream().map(FencepostAdapter.Node::url).collect(Collectors.joining(",")))
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(sessionMs)
                .retryPolicy(new ExponentialBackoffRetry(RETRY_MS, RETRIES))
                .ensembleTracker(false)
                .build();
        client.start();
        client.blockUntilConnected(WARM_UP_S, TimeUnit.SECONDS);
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(CuratorAdapter::new);
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws Exception {
        Mutex mutex = mutexes.computeIfAbsent(key, each -> new Mutex(client, "/locks/" + each));
        if (!mutex.acquire(WAIT_MS, TimeUnit.MILLISECONDS)) {
            return FencepostAdapter.fail("another client holds it");
        }
        String path = mutex.path();
        Stat stat = client.checkExists().forPath(path);
        if (stat == null) {
            mutex.release();
            return FencepostAdapter.fail("the session ended");
        }
        String value = path + "#" + leases.incrementAndGet();
        held.put(value, new Lease(mutex, path));
        return FencepostAdapter.ok("value", value, "token", stat.getCzxid(), "open_ended", true);
    }

    @Override
    public Map<String, Object> held(String key, String value) throws Exception {
        String path = held.get(value).path();
        client.sync().forPath(path);
        return client.checkExists().forPath(path) != null ? FencepostAdapter.ok() : lost();
    }

    @Override
    public Map<String, Object> release(String key, String value) throws Exception {
        Lease lease = held.remove(value);
        try {
            if (held.values().stream().anyMatch(other -> other.path().equals(lease.path()))) {
                return client.checkExists().forPath(lease.path()) != null ? FencepostAdapter.ok() : lost();
            }
            return delete(lease.path());
        } finally {
            lease.mutex().release();
        }
    }

    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields(
                "library", "curator " + CuratorFramework.class.getPackage().getImplementationVersion(),
                "java", System.getProperty("java.version"),
                "waits_ms", WAIT_MS,
                "retries", RETRIES);
    }

    /** Without Curator's retries, which would not tell who deleted it. */
    private Map<String, Object> delete(String path) throws Exception {
        try {
            client.getZookeeperClient().getZooKeeper().delete(path, -1);
        } catch (KeeperException.NoNodeException | KeeperException.SessionExpiredException ended) {
            return lost();
        }
        return FencepostAdapter.ok();
    }

    private static Map<String, Object> lost() {
        return FencepostAdapter.fail("the session has ended");
    }

    protected record Lease(InterProcessMutex mutex, String path) {}

    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String path() {
            return getLockPath();
        }
    }
}
