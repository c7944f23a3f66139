<?php
// A toy: SET NX PX on the first node, over a bare socket.

use function Fencepost\{fail, now_ns, ok, serve};

require __DIR__ . '/fencepost_adapter.php';

const IF_MINE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

class Toy
{
    private $socket;

    function __construct(array $node, private string $name)
    {
        $this->socket = stream_socket_client("tcp://{$node['host']}:{$node['port']}");
        if (isset($node['password'])) {
            $this->ask('AUTH', $node['password']);
        }
    }

    /** One request, and its reply of one line. */
    private function ask(string ...$words): string
    {
        $parts = array_map(fn(string $word) => '$' . strlen($word) . "\r\n$word\r\n", $words);
        fwrite($this->socket, '*' . count($words) . "\r\n" . implode($parts));
        return trim(fgets($this->socket));
    }

    function acquire(string $key, int $ttl_ms): array
    {
        $value = "$this->name-" . bin2hex(random_bytes(8));
        $asked_ns = now_ns();
        if ($this->ask('SET', $key, $value, 'NX', 'PX', (string) $ttl_ms) !== '+OK') {
            return fail();
        }
        return ok(['value' => $value, 'validity_ms' => $ttl_ms, 'deadline_ns' => $asked_ns + $ttl_ms * 1_000_000]);
    }

    function release(string $key, string $value): array
    {
        return $this->ask('EVAL', IF_MINE, '1', $key, $value) === ':1' ? ok() : fail();
    }

    function describe(): array
    {
        return ['library' => 'a socket'];
    }
}

serve(fn(array $nodes, array $settings) => new Toy($nodes[0], $settings['manifest']['name']));
