<?php
// Symfony's lock on Redis, opened as the framework opens it from LOCK_DSN: a RedisStore, or over several nodes a CombinedStore
// with the ConsensusStrategy.
//
// The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns false if somebody else has the lock,
// and throws if a node did not reply. A lock knows its own remaining lifetime, by the wall clock. `release` returns nothing,
// also if the lock was no longer held.

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Store\StoreFactory;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;
use function Fencepost\{fail, ok, serve, until_wall_clock, version_of};

require __DIR__ . '/fencepost_adapter.php';
require 'Symfony/Component/Cache/autoload.php';
require 'Symfony/Component/Lock/autoload.php';

class SymfonyLock
{
    private LockFactory $factory;
    private array $held = [];

    function __construct(array $addresses)
    {
        $stores = array_map(StoreFactory::createStore(...), $addresses);
        foreach ($stores as $store) {
            try {
                $store->exists(new Key('warm-up')); // it connects when it is first used
            } catch (\Exception $error) {
                fwrite(STDERR, "$error\n"); // a node that is down now may come back
            }
        }
        $this->factory = new LockFactory(count($stores) === 1 ? $stores[0] : new CombinedStore($stores, new ConsensusStrategy()));
    }

    function acquire(string $key, int $ttl_ms): array
    {
        $of = new Key($key);
        $lock = $this->factory->createLockFromKey($of, $ttl_ms / 1000);
        if (!$lock->acquire()) {
            return fail();
        }
        $value = $of->getState(RedisStore::class);
        $this->held[$value] = $lock;
        return self::granted($lock, $value);
    }

    function extend(string $key, string $value, int $ttl_ms): array
    {
        try {
            $this->held[$value]->refresh($ttl_ms / 1000);
        } catch (LockConflictedException $error) {
            return fail($error->getMessage());
        }
        return self::granted($this->held[$value], $value);
    }

    function release(string $key, string $value): array
    {
        $lock = $this->held[$value];
        unset($this->held[$value]);
        $lock->release();
        return ok();
    }

    private static function granted(LockInterface $lock, string $value): array
    {
        $now_s = microtime(true);
        return ok(['value' => $value] + until_wall_clock($now_s + $lock->getRemainingLifetime()));
    }

    function describe(): array
    {
        return [
            'library' => 'symfony/lock ' . version_of('php-symfony-lock'),
            'symfony/cache' => version_of('php-symfony-cache'),
            'phpredis' => phpversion('redis'),
            'php' => PHP_VERSION,
        ];
    }
}

serve(function (array $nodes, array $settings) {
    $used = array_slice($nodes, 0, $settings['manifest']['stores']);
    return new SymfonyLock(array_column($used, 'url'));
});
