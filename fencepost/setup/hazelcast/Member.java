import com.hazelcast.client.Client;
import com.hazelcast.client.ClientListener;
import com.hazelcast.config.FileSystemYamlConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.cp.CPGroupId;
import com.hazelcast.cp.CPMember;
import com.hazelcast.cp.CPSubsystemManagementService;
import com.hazelcast.cp.internal.RaftService;
import com.hazelcast.cp.internal.raft.impl.RaftNode;
import com.hazelcast.cp.internal.raft.impl.RaftNodeImpl;
import com.hazelcast.instance.BuildInfoProvider;
import com.hazelcast.instance.impl.HazelcastInstanceProxy;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * A member of Hazelcast, configured by hazelcast.yaml, and what its operator sees and does.
 *
 * <p>At a second port it answers one word a line: `version`, `leads` (it leads the group of the
 * locks, and in which term), `write` (one succeeds through this member, and it is a member of the group), `clients` (the
 * names of those that connected to it).
 *
 * <p>A member that was killed has lost its part of the group: the free edition keeps nothing. It comes back as another
 * member. So it does what its operator would do: it has the group remove the member that it was, and is promoted.
 */
public final class Member {
    private static final String MARKS = "fencepost-probe";
    private static final int REMEMBERED = 10_000;
    private static final long WRITE_MS = 1_000;
    private static final long AGAIN_MS = 200;
    private static final long CHANGE_S = 10;
    private static final Map<String, Boolean> CLIENTS = Collections.synchronizedMap(new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > REMEMBERED;
        }
    });

    private static volatile HazelcastInstance member;
    private static volatile RaftService raft;
    /** The group that has the locks. */
    private static volatile CPGroupId group;

    private Member() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("--version")) {
            System.out.println("Hazelcast, version " + BuildInfoProvider.getBuildInfo().getVersion());
            return;
        }
        InetSocketAddress place = new InetSocketAddress(InetAddress.getByName(arguments[0]), Integer.parseInt(arguments[1]));
        ServerSocket asked = new ServerSocket();
        asked.setReuseAddress(true);
        asked.bind(place);
        Thread answering = new Thread(() -> answer(asked), "operator");
        answering.setDaemon(true);
        answering.start();
        HazelcastInstance joined = Hazelcast.newHazelcastInstance(new FileSystemYamlConfig("hazelcast.yaml"));
        joined.getClientService().addClientListener(new ClientListener() {
            @Override
            public void clientConnected(Client client) {
                CLIENTS.put(client.getName(), true);
            }

            @Override
            public void clientDisconnected(Client client) {}
        });
        raft = ((HazelcastInstanceProxy) joined).getOriginal().node.getNodeEngine().getService(RaftService.SERVICE_NAME);
        member = joined;
        while (true) {
            try {
                takePart(joined);
            } catch (Exception notYet) {
                System.err.println("not in the group yet: " + notYet);
            }
            Thread.sleep(AGAIN_MS);
        }
    }

    /** Replaces the member that ran here before, if the group was formed without this one. */
    private static void takePart(HazelcastInstance joined) throws Exception {
        CPSubsystemManagementService operator = joined.getCPSubsystem().getCPSubsystemManagementService();
        if (!operator.isDiscoveryCompleted()) {
            return;
        }
        if (operator.getLocalCPMember() == null) {
            for (CPMember each : operator.getCPMembers().toCompletableFuture().get(CHANGE_S, TimeUnit.SECONDS)) {
                if (each.getAddress().equals(joined.getCluster().getLocalMember().getAddress())) {
                    operator.removeCPMember(each.getUuid()).toCompletableFuture().get(CHANGE_S, TimeUnit.SECONDS);
                    System.err.println("removed the member that was here before: " + each.getUuid());
                }
            }
            operator.promoteToCPMember().toCompletableFuture().get(CHANGE_S, TimeUnit.SECONDS);
            System.err.println("promoted: " + operator.getLocalCPMember());
        }
        if (group == null) {
            group = joined.getCPSubsystem().getLock(MARKS).getGroupId();
        }
    }

    /** Whether it can vote: it was told of the groups of which it is a member. */
    private static boolean isPart() {
        return raft.getLocalCPMember() != null && group != null
                && knowsLeader(raft.getRaftNode(group))
                && knowsLeader(raft.getRaftNode(raft.getMetadataGroupManager().getMetadataGroupId()));
    }

    private static boolean knowsLeader(RaftNode own) {
        return own != null && own.getLeader() != null && own.getCommittedMembers().contains(own.getLocalMember());
    }

    private static void answer(ServerSocket asked) {
        ExecutorService threads = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "operator's question");
            thread.setDaemon(true);
            return thread;
        });
        while (true) {
            try {
                Socket connection = asked.accept();
                threads.execute(() -> answer(connection));
            } catch (Exception gone) {
                System.err.println("a question was lost: " + gone);
            }
        }
    }

    private static void answer(Socket connection) {
        try (connection) {
            InputStreamReader in = new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8);
            String said;
            try {
                said = said(new BufferedReader(in).readLine());
            } catch (Exception error) {
                said = "no " + error;
            }
            connection.getOutputStream().write((said + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (Exception gone) {
            System.err.println("an answer was lost: " + gone);
        }
    }

    private static String said(String word) throws Exception {
        if (word.equals("version")) {
            return BuildInfoProvider.getBuildInfo().getVersion();
        }
        HazelcastInstance joined = member;
        if (joined == null || !joined.getLifecycleService().isRunning()) {
            return "no member yet";
        }
        switch (word) {
            case "clients":
                synchronized (CLIENTS) {
                    return String.join(" ", CLIENTS.keySet());
                }
            case "leads":
                RaftNode own = group == null ? null : raft.getRaftNode(group);
                return own instanceof RaftNodeImpl node && node.getLocalMember().equals(node.getLeader())
                        ? "in term " + node.state().term()
                        : "no";
            case "write":
                if (!isPart()) {
                    return "no member of the group";
                }
                joined.getCPSubsystem().getAtomicLong(MARKS).incrementAndGetAsync().toCompletableFuture().get(WRITE_MS, TimeUnit.MILLISECONDS);
                return "yes";
            default:
                return "no such question";
        }
    }
}
