//! rslock, with `LockManager::new(urls)`, `acquire`, `extend` and `release` in tokio's runtime, as its README shows, and
//! its own defaults and those of redis-rs.
//!
//! The library's bugs are part of what is tested: nothing is fixed here.
//!
//! `acquire` repeats `lock` forever, whatever the error. A client must return to notice a request to stop, so the loop is
//! here. `lock` returns a validity in whole milliseconds, computed right before it returns, on the thread that polls it.

mod fencepost_adapter;

use fencepost_adapter::{
    fail, granted_for, locked_version, ok, serve, timed, timed_on_this_thread, Answer, Call, Lock,
    Node,
};
use rslock::LockManager;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The only setting of ours: `acquire` waits forever. It is checked only between calls of `lock`.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

const CARGO_LOCK: &str = include_str!("Cargo.lock");

struct Rslock {
    runtime: Runtime,
    library: LockManager,
    held: Mutex<HashMap<Vec<u8>, rslock::Lock>>,
    /// Whether several tasks share the library, and a thread may wait for another one.
    is_shared: bool,
}

fn open(nodes: Vec<Node>, settings: &Value) -> Result<Rslock, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let library = LockManager::new(nodes.into_iter().map(|node| node.url).collect());
    // Asks every node, which connects them all, so that no first acquire includes it.
    let _ = runtime.block_on(library.query_redis_for_key_value(b"warm-up"));
    Ok(Rslock {
        runtime,
        library,
        held: Mutex::new(HashMap::new()),
        is_shared: settings["tasks"].as_u64().unwrap_or(1) > 1,
    })
}

impl Rslock {
    fn timed<T>(&self, future: impl Future<Output = T>) -> (T, Call) {
        match self.is_shared {
            true => timed(|| self.runtime.block_on(future)),
            false => timed_on_this_thread(|| self.runtime.block_on(future)),
        }
    }

    fn keep(&self, lock: rslock::Lock) {
        let mut held = self.held.lock().expect("no thread panics with it");
        held.insert(lock.val.clone(), lock);
    }

    fn take(&self, value: &[u8]) -> rslock::Lock {
        let mut held = self.held.lock().expect("no thread panics with it");
        held.remove(value).expect("only what was granted is named")
    }
}

impl Lock for Rslock {
    fn acquire(&self, key: &str, ttl: Duration) -> Answer {
        let began = Instant::now();
        loop {
            let (locked, call) = self.timed(self.library.lock(key, ttl));
            match locked {
                Ok(lock) => {
                    let answer = granted_for(&lock.val, lock.validity_time as f64, call);
                    self.keep(lock);
                    return answer;
                }
                Err(error) if began.elapsed() >= ACQUIRE_TIMEOUT => return fail(error),
                Err(_) => continue,
            }
        }
    }

    /// An extension that is refused releases the lock: the library removes its own keys from all nodes.
    fn extend(&self, _key: &str, value: &[u8], ttl: Duration) -> Answer {
        let lock = self.take(value);
        let (extended, call) = self.timed(self.library.extend(&lock, ttl));
        self.keep(lock);
        match extended {
            Ok(lock) => granted_for(value, lock.validity_time as f64, call),
            Err(error) => fail(error),
        }
    }

    /// The library does not report whether a release succeeded.
    fn release(&self, _key: &str, value: &[u8]) -> Answer {
        self.runtime.block_on(self.take(value).release());
        ok()
    }

    fn describe(&self) -> Value {
        json!({
            "library": format!("rslock {}", locked_version(CARGO_LOCK, "rslock")),
            "redis-rs": locked_version(CARGO_LOCK, "redis"),
            "tokio": locked_version(CARGO_LOCK, "tokio"),
            "acquire_timeout_s": ACQUIRE_TIMEOUT.as_secs_f64(),
            "retry_count": 3,
            "retry_delay_max_s": 0.2,
        })
    }
}

fn main() {
    serve(open)
}
