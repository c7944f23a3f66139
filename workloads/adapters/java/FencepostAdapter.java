import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The adapters' side of the lock protocol (docs/lock-protocol.md) for Java, using only the JDK.
 *
 * <p>An adapter's main method calls {@link #serve} with a function that opens its library.
 *
 * <p>A library that returns a deadline is answered with deadline_ns, on the clock of {@link System#nanoTime}; nothing has to
 * be estimated. One that says yes and nothing else computes no validity: its lease began at some time between the start and
 * the end of the call, because the nodes count from the request, and the library waited for their replies after that. {@link
 * TimedCall} provides these bounds.
 *
 * <p>When did a library compute the duration that it returns? The judge needs bounds for that time: if the validity
 * counts from too late, the lock is blamed for time that something else took. {@link BoundedCall} provides the bounds:
 *
 * <ul>
 *   <li>Upper bound: a timestamp taken right after the call returned.
 *   <li>Lower bound, for a library that neither waits nor sleeps between computing its result and returning it: all the
 *       time for which the calling thread waited (parked, in Object.wait or asleep) was <em>before</em> the result was
 *       computed. The JVM counts that time. So the result was computed no earlier than the start of the call plus the
 *       time waited during it, minus 1 ms, because the JVM counts in whole milliseconds. Garbage collection, waiting for
 *       a processor and being stopped are not counted as waiting, so they keep the bound where it is. Neither is
 *       blocking in a system call: for a library that reads its sockets in the calling thread, the lower bound is the
 *       start of the call.
 * </ul>
 */
public final class FencepostAdapter {
    /**
     * What {@link #serve} needs. An exception is answered with info, because it is unknown how far the call got.
     *
     * <p>A value that is no text is answered as a byte[]. The other methods are then given a text with one character for each
     * byte: {@code value.getBytes(StandardCharsets.ISO_8859_1)}.
     */
    public interface Adapter {
        /** The library's version, and the timeouts and retries that it uses. */
        Map<String, Object> describe();

        Map<String, Object> acquire(String key, long ttlMs) throws Exception;

        /** For a reader, which other readers may join. */
        default Map<String, Object> acquireShared(String key, long ttlMs) throws Exception {
            return fail("this library cannot let readers in together");
        }

        default Map<String, Object> extend(String key, String value, long ttlMs) throws Exception {
            return fail("this library cannot extend a lock");
        }

        Map<String, Object> release(String key, String value) throws Exception;
    }

    /** An adapter of a library that renews its leases by itself (--renewal). */
    public interface Renewing extends Adapter {
        /** {@link #ok} if the library says that the lease is still held, {@link #fail} if it says that it is not. */
        Map<String, Object> held(String key, String value) throws Exception;
    }

    /**
     * {@code password} is null if the node asks for none; {@code url} contains it, too. {@code knownAs} is where other
     * servers say that it is.
     */
    public record Node(String host, int port, String url, String password, Place knownAs) {}

    public record Place(String host, int port) {}

    public interface Opener {
        Adapter open(List<Node> nodes, Map<String, Object> settings) throws Exception;
    }

    /** For a library that says yes and nothing else. Call it between the constructor and {@link #end}. */
    public static final class TimedCall {
        private final long beganNs = System.nanoTime();

        /** The fields that bound when the lease began. */
        public Map<String, Object> end() {
            return fields("computed_after_ns", beganNs, "computed_before_ns", System.nanoTime());
        }
    }

    /** For a library that returns a duration. Call it between the constructor and {@link #end}, in the same thread. */
    public static final class BoundedCall {
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private static final long RESOLUTION_NS = 1_000_000;

        static {
            THREADS.setThreadContentionMonitoringEnabled(true);
        }

        private final long waitedBeforeNs = waitedNs();
        public final long beganNs = System.nanoTime();

        /** The fields that bound when the result was computed. */
        public Map<String, Object> end() {
            long endedNs = System.nanoTime();
            long waitedNs = Math.max(waitedNs() - waitedBeforeNs - RESOLUTION_NS, 0);
            return fields("computed_after_ns", Math.min(beganNs + waitedNs, endedNs), "computed_before_ns", endedNs);
        }

        private static long waitedNs() {
            return THREADS.getThreadInfo(Thread.currentThread().getId()).getWaitedTime() * 1_000_000;
        }
    }

    /** It happened. The fields are those of the protocol, as names and values in turn; see {@link #fields}. */
    public static Map<String, Object> ok(Object... namesAndValues) {
        Map<String, Object> answer = fields("outcome", "ok");
        answer.putAll(fields(namesAndValues));
        return answer;
    }

    /** It certainly did not happen. */
    public static Map<String, Object> fail(String error) {
        return fields("outcome", "fail", "error", oneLine(error));
    }

    /** Unknown whether it happened. */
    public static Map<String, Object> info(Throwable error) {
        return info(error.toString());
    }

    public static Map<String, Object> info(String error) {
        return fields("outcome", "info", "error", oneLine(error));
    }

    /** Names and values in turn, as a map. A value that is a byte[] is written in base64, under the name with _base64. */
    public static Map<String, Object> fields(Object... namesAndValues) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            String name = (String) namesAndValues[i];
            if (namesAndValues[i + 1] instanceof byte[] bytes) {
                fields.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
            } else {
                fields.put(name, namesAndValues[i + 1]);
            }
        }
        return fields;
    }

    /** After stdin has ended, how long requests that were already read may take. */
    private static final long LAST_ANSWERS_MS = 1000;

    private static final int ERROR_CHARACTERS = 500;

    private final Opener opener;
    private final PrintStream answers;
    private Adapter adapter;

    private FencepostAdapter(Opener opener, PrintStream answers) {
        this.opener = opener;
        this.answers = answers;
    }

    /**
     * Answers requests and ends the process when stdin ends. Those of one task (--tasks) are answered one after the other
     * in a thread of their own, all others in the calling thread.
     */
    public static void serve(Opener opener) throws InterruptedException {
        // A library's own output must not mix with the answers: its stdout is our stderr.
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BlockingQueue<Optional<String>> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines), "stdin");
        reader.setDaemon(true);
        reader.start();
        FencepostAdapter served = new FencepostAdapter(opener, answers);
        Map<Object, ExecutorService> tasks = new HashMap<>();
        for (String verb = ""; !verb.equals("close"); ) {
            Optional<String> line = lines.take();
            if (line.isEmpty()) {
                break;
            }
            Map<String, Object> request = object(FencepostJson.read(line.get()));
            verb = (String) request.get("do");
            if (request.get("task") == null) {
                served.handle(request);
            } else {
                ExecutorService thread =
                        tasks.computeIfAbsent(request.get("task"), task -> Executors.newSingleThreadExecutor());
                thread.execute(() -> served.handle(request));
            }
        }
        tasks.values().forEach(ExecutorService::shutdown);
        for (ExecutorService thread : tasks.values()) {
            thread.awaitTermination(LAST_ANSWERS_MS, TimeUnit.MILLISECONDS);
        }
        Runtime.getRuntime().halt(0); // threads in which a library still waits must not keep the process alive
    }

    private static void read(BlockingQueue<Optional<String>> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(Optional.of(line));
            }
            lines.add(Optional.empty());
            Thread.sleep(LAST_ANSWERS_MS);
        } catch (Exception error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0); // even if a library still waits for a hung node
    }

    private void handle(Map<String, Object> request) {
        Map<String, Object> answer = new LinkedHashMap<>(answer((String) request.get("do"), request));
        if (request.get("task") != null) {
            answer.put("task", request.get("task"));
        }
        synchronized (answers) {
            answers.print(FencepostJson.write(answer) + "\n");
            answers.flush();
        }
    }

    private Map<String, Object> answer(String verb, Map<String, Object> request) {
        try {
            String key = (String) request.get("key");
            String value = value(request);
            switch (verb) {
                case "open":
                    List<Node> nodes = ((List<?>) request.get("nodes")).stream().map(FencepostAdapter::node).toList();
                    Map<String, Object> settings = object(request.get("settings"));
                    adapter = opener.open(nodes, settings);
                    if (settings.get("renewal_ms") != null && !(adapter instanceof Renewing)) {
                        return fail("this adapter cannot say whether a lock is still held (--renewal)");
                    }
                    return ok("describe", adapter.describe());
                case "acquire":
                    return adapter.acquire(key, (Long) request.get("ttl_ms"));
                case "acquire_shared":
                    return adapter.acquireShared(key, (Long) request.get("ttl_ms"));
                case "extend":
                    return adapter.extend(key, value, (Long) request.get("ttl_ms"));
                case "release":
                    return adapter.release(key, value);
                case "held":
                    return ((Renewing) adapter).held(key, value);
                case "close":
                    return ok();
                default:
                    return fail("this adapter does not support " + verb);
            }
        } catch (Exception error) {
            error.printStackTrace();
            return verb.equals("open") ? fail(error.toString()) : info(error);
        }
    }

    private static String value(Map<String, Object> request) {
        String encoded = (String) request.get("value_base64");
        return encoded == null
                ? (String) request.get("value")
                : new String(Base64.getDecoder().decode(encoded), StandardCharsets.ISO_8859_1);
    }

    private static Node node(Object parsed) {
        Map<String, Object> node = object(parsed);
        int port = ((Long) node.get("port")).intValue();
        return new Node(
                (String) node.get("host"),
                port,
                (String) node.get("url"),
                (String) node.get("password"),
                node.get("known_as") instanceof List<?> place
                        ? new Place((String) place.get(0), ((Long) place.get(1)).intValue())
                        : null);
    }

    @SuppressWarnings("unchecked") // JSON objects have text as keys
    private static Map<String, Object> object(Object parsed) {
        return (Map<String, Object>) parsed;
    }

    private static String oneLine(String error) {
        String line = String.join(" ", error.trim().split("\\s+"));
        return line.substring(0, Math.min(line.length(), ERROR_CHARACTERS));
    }
}
