import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A toy: SET NX PX on the first node, over a bare socket. */
public final class Toy implements FencepostAdapter.Adapter {
    private static final String IF_MINE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

    private final Object name;
    private final Socket socket;
    private final BufferedReader replies;

    private Toy(List<FencepostAdapter.Node> nodes, Map<String, Object> settings) throws IOException {
        FencepostAdapter.Node first = nodes.get(0);
        name = ((Map<?, ?>) settings.get("manifest")).get("name");
        socket = new Socket(first.host(), first.port());
        replies = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        if (first.password() != null) {
            ask("AUTH", first.password());
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        FencepostAdapter.serve(Toy::new);
    }

    @Override
    public Map<String, Object> acquire(String key, long ttlMs) throws IOException {
        String value = name + "-" + UUID.randomUUID();
        long askedNs = System.nanoTime();
        if (!ask("SET", key, value, "NX", "PX", "" + ttlMs).equals("+OK")) {
            return FencepostAdapter.fail("held");
        }
        long deadlineNs = askedNs + ttlMs * 1_000_000;
        return FencepostAdapter.ok("value", value, "deadline_ns", deadlineNs, "requested_ns", askedNs);
    }

    @Override
    public Map<String, Object> release(String key, String value) throws IOException {
        return ask("EVAL", IF_MINE, "1", key, value).equals(":1") ? FencepostAdapter.ok() : FencepostAdapter.fail("lost");
    }

    @Override
    public Map<String, Object> describe() {
        return FencepostAdapter.fields("library", "a socket");
    }

    /** One request, and its reply of one line. */
    private String ask(String... words) throws IOException {
        StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            request.append("$").append(word.getBytes(StandardCharsets.UTF_8).length);
            request.append("\r\n").append(word).append("\r\n");
        }
        socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.UTF_8));
        return replies.readLine();
    }
}
