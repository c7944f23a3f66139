import java.util.List;
import java.util.Map;

/** A control: a client that asks the mutex alone, whose memory outlives its session. */
public final class TrustingCurator extends CuratorAdapter {
    private TrustingCurator(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) throws Exception {
        super(nodes, settings);
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(TrustingCurator::new);
    }

    @Override
    public Map<String, Object> held(String key, String value) {
        return held.get(value).mutex().isAcquiredInThisProcess() ? FencepostAdapter.ok() : FencepostAdapter.fail("no");
    }

    @Override
    public Map<String, Object> release(String key, String value) throws Exception {
        held.remove(value).mutex().release();
        return FencepostAdapter.ok();
    }
}
