<?php
// Laravel's Cache::lock on Redis: `get` and `release` of a lock of the Redis store over phpredis.
//
// The library's bugs are part of what is tested: nothing is fixed here. `get` returns true or false, and throws if the node did
// not reply; `release` returns whether it deleted the key.

use Illuminate\Cache\RedisStore;
use Illuminate\Redis\RedisManager;
use function Fencepost\{fail, ok, serve, timed, version_of};

require __DIR__ . '/fencepost_adapter.php';
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Redis/autoload.php';

class LaravelCacheLock
{
    private RedisStore $store;
    private array $held = [];

    function __construct(array $node)
    {
        $server = ['host' => $node['host'], 'port' => $node['port'], 'password' => $node['password'] ?? null, 'database' => 0];
        $redis = new RedisManager(null, 'phpredis', ['default' => $server]);
        $this->store = new RedisStore($redis);
        try {
            $redis->connection()->ping(); // it connects when it is first used
        } catch (\RedisException $error) {
            fwrite(STDERR, "$error\n"); // a node that is down now may come back
        }
    }

    function acquire(string $key, int $ttl_ms): array
    {
        $seconds = (int) ceil($ttl_ms / 1000);
        $lock = $this->store->lock($key, $seconds);
        [$granted, $bounds] = timed($lock->get(...));
        if (!$granted) {
            return fail();
        }
        $this->held[$lock->owner()] = $lock;
        return ok(['value' => $lock->owner(), 'granted_ms' => $seconds * 1000] + $bounds);
    }

    function release(string $key, string $value): array
    {
        $lock = $this->held[$value];
        unset($this->held[$value]);
        return $lock->release() ? ok() : fail();
    }

    function describe(): array
    {
        return [
            'library' => 'illuminate/cache ' . version_of('php-illuminate-cache'),
            'phpredis' => phpversion('redis'),
            'php' => PHP_VERSION,
        ];
    }
}

serve(fn(array $nodes, array $settings) => new LaravelCacheLock($nodes[0]));
