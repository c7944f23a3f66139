import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;

/** A lock that asks nobody: the key says how it behaves. */
public class Adapter implements FencepostAdapter.Adapter {
    private static final byte[] NOT_TEXT = {(byte) 0xff, 0, 'A'};

    private final Map<String, Object> settings;
    private final CyclicBarrier meeting = new CyclicBarrier(2);

    private static final class Renewing extends Adapter implements FencepostAdapter.Renewing {
        private Renewing(Map<String, Object> settings) {
            super(settings);
        }

        @Override
        public Map<String, Object> held(String key, String value) {
            return value.equals("v") ? FencepostAdapter.ok() : FencepostAdapter.fail("it is another one");
        }
    }

    private Adapter(Map<String, Object> settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve((nodes, settings) -> {
            if (nodes.isEmpty()) {
                throw new IllegalArgumentException("there are no nodes");
            }
            System.out.println("opening " + nodes.get(0).host() + ":" + nodes.get(0).port());
            return nodes.get(0).host().equals("renews") ? new Renewing(settings) : new Adapter(settings);
        });
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws Exception {
        switch (key) {
            case "until":
                return FencepostAdapter.ok("value", "v", "deadline_ns", System.nanoTime() + ttlMs * 1_000_000);
            case "for":
                FencepostAdapter.BoundedCall bounded = new FencepostAdapter.BoundedCall();
                Thread.sleep(20);
                return with(bounded.end(), "value", "v", "validity_ms", ttlMs);
            case "yes":
                FencepostAdapter.TimedCall timed = new FencepostAdapter.TimedCall();
                Thread.sleep(20);
                return with(timed.end(), "value", NOT_TEXT, "token", 7);
            case "held":
                return FencepostAdapter.fail("somebody\n\telse has it");
            case "unknown":
                return FencepostAdapter.info("no reply");
            case "panic":
                throw new IllegalStateException("out of luck");
            case "meet":
                meeting.await(); // until two tasks are here at once
                return FencepostAdapter.ok("value", "v", "deadline_ns", System.nanoTime());
            case "hang":
                Thread.sleep(3_600_000);
            default:
                return shown(key);
        }
    }

    private static Map<String, Object> shown(String key) {
        System.out.println("printed by the library");
        System.out.print("and once more\n");
        return FencepostAdapter.ok(
                "value", "v", "token", 7, "granted_ms", 2000, "requested_ns", 1);
    }

    private static Map<String, Object> with(Map<String, Object> bounds, Object... namesAndValues) {
        Map<String, Object> answer = FencepostAdapter.ok(namesAndValues);
        answer.putAll(bounds);
        return answer;
    }

    @Override
    public Map<String, Object> extend(String key, String value, long ttlMs) {
        return FencepostAdapter.fail("it cannot extend");
    }

    @Override
    public Map<String, Object> release(String key, String value) {
        return Arrays.equals(value.getBytes(StandardCharsets.ISO_8859_1), NOT_TEXT)
                ? FencepostAdapter.ok()
                : FencepostAdapter.fail("another value");
    }

    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields("library", "toy 1.0", "settings", settings);
    }
}
