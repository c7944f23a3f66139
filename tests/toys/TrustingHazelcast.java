import java.util.List;
import java.util.Map;

/** A control: a client that takes a lock for held until it has released it, whatever became of its session. */
public final class TrustingHazelcast extends HazelcastAdapter {
    private TrustingHazelcast(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) throws Exception {
        super(nodes, settings);
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(TrustingHazelcast::new);
    }

    @Override
    public Map<String, Object> held(String key, String value) {
        return FencepostAdapter.ok();
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        super.release(key, value);
        return FencepostAdapter.ok();
    }
}
