<?php
// A lock that asks nobody: the key says how it behaves.

use function Fencepost\{fail, info, now_ns, ok, serve, timed};

require __DIR__ . '/fencepost_adapter.php';

const NOT_TEXT = "\xff\x00A";

class Toy
{
    function __construct(private array $settings) {}

    function acquire(string $key, int $ttl_ms): array
    {
        switch ($key) {
            case 'until':
                return ok(['value' => 'v', 'deadline_ns' => now_ns() + $ttl_ms * 1_000_000]);
            case 'for':
                return ok(['value' => 'v', 'validity_ms' => $ttl_ms] + timed(fn() => usleep(20_000))[1]);
            case 'yes':
                return ok(['value' => NOT_TEXT, 'token' => 7] + timed(fn() => usleep(20_000))[1]);
            case 'held':
                return fail("somebody\n\telse has it");
            case 'unknown':
                return info('no reply');
            case 'panic':
                throw new RuntimeException('out of luck');
        }
        echo "printed by the library\n";
        print "and once more\n";
        return ok(['value' => 'v', 'token' => 7, 'granted_ms' => 2000, 'requested_ns' => 1]);
    }

    function extend(string $key, string $value, int $ttl_ms): array
    {
        return fail('it cannot extend');
    }

    function release(string $key, string $value): array
    {
        return $value === NOT_TEXT ? ok() : fail('another value');
    }

    function describe(): array
    {
        return ['library' => 'toy 1.0', 'settings' => $this->settings];
    }
}

class RenewingToy extends Toy
{
    function held(string $key, string $value): array
    {
        return $value === 'v' ? ok() : fail('it is another one');
    }
}

serve(function (array $nodes, array $settings) {
    if (!$nodes) {
        throw new RuntimeException('there are no nodes');
    }
    echo "opening {$nodes[0]['host']}:{$nodes[0]['port']}\n";
    return $nodes[0]['host'] === 'renews' ? new RenewingToy($settings) : new Toy($settings);
});
