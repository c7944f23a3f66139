package org.redisson;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.client.protocol.RedisStrictCommand;

/**
 * Redisson's locks, which here note when they ask the server, and change nothing else. What they override can be overridden
 * in this package only.
 */
public final class Attempts {
    private volatile long lastNs;

    /** When the newest attempt to acquire began. */
    public long lastNs() {
        return lastNs;
    }

    public RLock lock(Redisson client, String key) {
        return new RedissonLock(client.getCommandExecutor(), key) {
            @Override
            <T> RFuture<T> tryLockInnerAsync(
                    long waitTime, long leaseTime, TimeUnit unit, long thread, RedisStrictCommand<T> command) {
                lastNs = System.nanoTime();
                return super.tryLockInnerAsync(waitTime, leaseTime, unit, thread, command);
            }
        };
    }

    public RLock fair(Redisson client, String key) {
        return new RedissonFairLock(client.getCommandExecutor(), key) {
            @Override
            <T> RFuture<T> tryLockInnerAsync(
                    long waitTime, long leaseTime, TimeUnit unit, long thread, RedisStrictCommand<T> command) {
                lastNs = System.nanoTime();
                return super.tryLockInnerAsync(waitTime, leaseTime, unit, thread, command);
            }
        };
    }

    public RLock read(Redisson client, String key) {
        return new RedissonReadLock(client.getCommandExecutor(), key) {
            @Override
            <T> RFuture<T> tryLockInnerAsync(
                    long waitTime, long leaseTime, TimeUnit unit, long thread, RedisStrictCommand<T> command) {
                lastNs = System.nanoTime();
                return super.tryLockInnerAsync(waitTime, leaseTime, unit, thread, command);
            }
        };
    }

    public RLock write(Redisson client, String key) {
        return new RedissonWriteLock(client.getCommandExecutor(), key) {
            @Override
            <T> RFuture<T> tryLockInnerAsync(
                    long waitTime, long leaseTime, TimeUnit unit, long thread, RedisStrictCommand<T> command) {
                lastNs = System.nanoTime();
                return super.tryLockInnerAsync(waitTime, leaseTime, unit, thread, command);
            }
        };
    }

    public RFencedLock fenced(Redisson client, String key) {
        return new RedissonFencedLock(client.getCommandExecutor(), key) {
            @Override
            RFuture<List<Long>> tryLockInnerAsync(long leaseTime, TimeUnit unit, long thread) {
                lastNs = System.nanoTime();
                return super.tryLockInnerAsync(leaseTime, unit, thread);
            }
        };
    }
}
