//! The adapters' side of the lock protocol (docs/lock-protocol.md) in Rust: the standard library, `serde_json` and `libc`.
//!
//! An adapter's `main` calls [`serve`] with a function that opens its library. Every grant says until when it lasts, in
//! the most exact of three ways that the library allows:
//!
//! - [`granted_until`]: the library returns a deadline, an [`Instant`]. Nothing has to be estimated.
//! - [`granted_for`]: it returns a duration. The duration counts from the moment at which the library computed it.
//! - [`granted`]: it returns yes and nothing else. The lease lasts for the TTL, from some moment within the call. The bounds
//!   for that are [`timed`]'s: the nodes count from the request, and the library waited for their replies after that.
//!
//! When did the library compute a duration? The judge needs bounds for that moment: if it counted from too late a time,
//! the lock would be blamed for time that something else took.
//!
//! - [`timed`] takes a timestamp right before the call and one right after it. These bounds always hold.
//! - [`timed_on_this_thread`] narrows the lower one, for a library that computes on the thread that called it and neither
//!   waits nor sleeps between computing and returning. The thread spent the time in between either on a processor or
//!   waiting for one, and the kernel counts both. So the result was computed no earlier than the end minus the processor
//!   time and waiting time *of the whole call*, minus 1 ms for what the kernel does not count (interrupts, a hypervisor),
//!   and not before the call started. Tokio's `Runtime::block_on` polls its future on the calling thread, also in a
//!   runtime with many threads; a future that is spawned runs elsewhere. What the kernel counts leaves out the time for
//!   which the process was stopped (SIGSTOP); the harness knows it and widens the bound. If several tasks share the lock, a
//!   thread may wait for another one, which is in neither number: use [`timed`].

#![allow(dead_code)] // an adapter uses what its library needs

use serde_json::{Map, Value};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::FromRawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{mpsc, Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MARGIN_NS: i64 = 1_000_000;

/// How long calls that are under way when stdin ends may still take.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// What an adapter implements. If several tasks share the lock (`--tasks`), each calls it from a thread of its own.
///
/// A panic in a call is answered with `info`, because it is unknown how far the call got.
pub trait Lock: Send + Sync + 'static {
    fn acquire(&self, key: &str, ttl: Duration) -> Answer;
    fn extend(&self, key: &str, value: &[u8], ttl: Duration) -> Answer;
    fn release(&self, key: &str, value: &[u8]) -> Answer;
    /// What the report shows: the library's version, and the timeouts and retries that it uses.
    fn describe(&self) -> Value;
    /// For a library that renews its leases by itself (`--renewal`), which also overrides `renews`: `ok` if it says that
    /// the lease is still held, `fail` if it says that it is not.
    fn held(&self, _key: &str, _value: &[u8]) -> Answer {
        fail("this adapter cannot say whether a lock is still held")
    }
    fn renews(&self) -> bool {
        false
    }
}

/// Where the lock connects to a node. `password`: `None` if the node asks for none; `url` contains it, too.
#[derive(Clone, Debug)]
pub struct Node {
    pub host: String,
    pub port: u16,
    pub url: String,
    pub password: Option<String>,
}

/// One answer of the protocol.
#[derive(Clone, Debug)]
pub struct Answer(Map<String, Value>);

impl Answer {
    fn new(outcome: &str) -> Answer {
        Answer(Map::new()).with("outcome", outcome)
    }

    /// Adds a field of the protocol, for anything else that the library shows: `granted(…).with("token", 7)`.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Answer {
        self.0.insert(field.into(), value.into());
        self
    }

    fn with_error(self, error: impl Display) -> Answer {
        let line: Vec<String> = error
            .to_string()
            .split_whitespace()
            .map(String::from)
            .collect();
        self.with(
            "error",
            line.join(" ").chars().take(500).collect::<String>(),
        )
    }
}

/// Answers a release.
pub fn ok() -> Answer {
    Answer::new("ok")
}

/// Answers that it certainly did not happen.
pub fn fail(error: impl Display) -> Answer {
    Answer::new("fail").with_error(error)
}

/// Answers that nobody can know whether it happened.
pub fn info(error: impl Display) -> Answer {
    Answer::new("info").with_error(error)
}

/// Answers an acquire or an extension with a deadline.
pub fn granted_until(value: &[u8], deadline: Instant) -> Answer {
    with_value(value).with("deadline_ns", monotonic_ns(deadline))
}

/// Answers an acquire or an extension with a validity that was computed within the call.
pub fn granted_for(value: &[u8], validity_ms: f64, call: Call) -> Answer {
    granted(value, call).with("validity_ms", validity_ms)
}

/// Answers an acquire or an extension for a library that says yes and nothing else, with the bounds of [`timed`].
pub fn granted(value: &[u8], call: Call) -> Answer {
    with_value(value)
        .with("computed_after_ns", call.after_ns)
        .with("computed_before_ns", call.before_ns)
}

fn with_value(value: &[u8]) -> Answer {
    match std::str::from_utf8(value) {
        Ok(text) => ok().with("value", text),
        Err(_) => ok().with("value_base64", base64(value)),
    }
}

/// The bounds for when a call of the library computed its result, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub after_ns: i64,
    pub before_ns: i64,
}

/// Runs a call of the library; the bounds are its start and its end.
pub fn timed<T>(call: impl FnOnce() -> T) -> (T, Call) {
    let after_ns = now_ns();
    let result = call();
    (
        result,
        Call {
            after_ns,
            before_ns: now_ns(),
        },
    )
}

/// Runs a call of a library that computes its result on this thread, and neither waits nor sleeps between that and its
/// return. Without the kernel's account of the thread, the bounds are those of [`timed`].
pub fn timed_on_this_thread<T>(call: impl FnOnce() -> T) -> (T, Call) {
    let busy_before_ns = busy_ns();
    let (result, mut bounds) = timed(call);
    if let (Some(before_ns), Some(after_ns)) = (busy_before_ns, busy_ns()) {
        bounds.after_ns = bounds
            .after_ns
            .max(bounds.before_ns - (after_ns - before_ns) - MARGIN_NS);
    }
    (result, bounds)
}

/// CLOCK_MONOTONIC in nanoseconds, which all processes of a host share.
pub fn now_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The version of a crate in a Cargo.lock: `locked_version(include_str!("Cargo.lock"), "tokio")`.
pub fn locked_version<'a>(cargo_lock: &'a str, name: &str) -> &'a str {
    let named = format!("name = \"{name}\"\nversion = \"");
    let (_, after) = cargo_lock
        .split_once(&named)
        .expect("Cargo.lock names every crate");
    after
        .split('"')
        .next()
        .expect("a version ends with a quotation mark")
}

/// Answers requests until stdin ends, and then ends the process: threads in which a library still waits for a hung node
/// must not keep it alive. What the library writes on stdout goes to stderr. `settings` are those of `open`.
pub fn serve<L: Lock>(open: impl FnOnce(Vec<Node>, &Value) -> Result<L, String>) -> ! {
    let answers = Arc::new(Mutex::new(divert_stdout()));
    let mut open = Some(open);
    let mut lock: Option<Arc<L>> = None;
    let mut under_way = Vec::new();
    for line in requests() {
        let request: Value = serde_json::from_str(&line).expect("a request is a JSON object");
        match request["do"].as_str() {
            Some("open") => {
                let open = open.take().expect("open comes once");
                let opened = catch_unwind(AssertUnwindSafe(|| opened(open, &request)));
                let answer = match opened.unwrap_or_else(|_| Err(PANICKED.into())) {
                    Ok(opened) => {
                        let describe = opened.describe();
                        lock = Some(Arc::new(opened));
                        ok().with("describe", describe)
                    }
                    Err(error) => fail(error),
                };
                write(&answers, answer);
            }
            Some("close") => {
                write(&answers, ok());
                std::process::exit(0)
            }
            _ => {
                let lock = lock.clone().expect("open comes first");
                if request["task"].is_null() {
                    write(&answers, answer(&*lock, &request));
                } else {
                    let answers = answers.clone();
                    under_way.retain(|task: &JoinHandle<()>| !task.is_finished());
                    under_way.push(std::thread::spawn(move || {
                        let answer = answer(&*lock, &request);
                        write(&answers, answer.with("task", request["task"].clone()));
                    }));
                }
            }
        }
    }
    for task in under_way {
        let _ = task.join();
    }
    std::process::exit(0)
}

/// The panic's message and place are on stderr already.
const PANICKED: &str = "the adapter panicked; see its log";

fn opened<L: Lock>(
    open: impl FnOnce(Vec<Node>, &Value) -> Result<L, String>,
    request: &Value,
) -> Result<L, String> {
    let lock = open(nodes(request), &request["settings"])?;
    if !request["settings"]["renewal_ms"].is_null() && !lock.renews() {
        return Err("this adapter cannot say whether a lock is still held (--renewal)".into());
    }
    Ok(lock)
}

fn write(answers: &Mutex<File>, answer: Answer) {
    let line = format!("{}\n", Value::Object(answer.0));
    let mut answers = answers.lock().expect("no thread panics while it writes");
    if answers.write_all(line.as_bytes()).is_err() {
        std::process::exit(0) // nobody reads any more
    }
}

fn answer(lock: &impl Lock, request: &Value) -> Answer {
    let key = request["key"].as_str().unwrap_or_default();
    let ttl = Duration::from_secs_f64(request["ttl_ms"].as_f64().unwrap_or_default() / 1000.0);
    let value = match request["value_base64"].as_str() {
        Some(encoded) => bytes(encoded),
        None => request["value"]
            .as_str()
            .unwrap_or_default()
            .as_bytes()
            .to_vec(),
    };
    let answered = catch_unwind(AssertUnwindSafe(|| {
        match request["do"].as_str().unwrap_or_default() {
            "acquire" => lock.acquire(key, ttl),
            "extend" => lock.extend(key, &value, ttl),
            "release" => lock.release(key, &value),
            "held" => lock.held(key, &value),
            verb => fail(format!("this adapter does not support {verb}")),
        }
    }));
    answered.unwrap_or_else(|_| info(PANICKED))
}

fn nodes(request: &Value) -> Vec<Node> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let node = |node: &Value| Node {
        host: text(&node["host"]),
        port: node["port"].as_u64().unwrap_or_default() as u16,
        url: text(&node["url"]),
        password: node["password"].as_str().map(str::to_string),
    };
    request["nodes"]
        .as_array()
        .map(|all| all.iter().map(node).collect())
        .unwrap_or_default()
}

fn requests() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(0);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
        drop(sender);
        std::thread::sleep(EXIT_GRACE);
        std::process::exit(0);
    });
    receiver
}

/// Sends whatever is printed to stderr, and returns the only way to the real stdout.
fn divert_stdout() -> File {
    // SAFETY: plain system calls; the new descriptor belongs to nobody else.
    unsafe {
        let real = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3);
        assert!(
            real >= 0 && libc::dup2(2, 1) == 1,
            "stdout cannot be diverted"
        );
        File::from_raw_fd(real)
    }
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into `now` and nowhere else.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    assert!(failed == 0, "clock {clock} cannot be read");
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

/// Converts a deadline to CLOCK_MONOTONIC, which an `Instant` counts by but does not export, rounding to the earlier side.
fn monotonic_ns(deadline: Instant) -> i64 {
    // The two cannot be read at once. Of several tries the one with the shortest gap between them is best.
    let tries = (0..8).map(|_| {
        let before_ns = now_ns();
        let now = Instant::now();
        let gap_ns = now_ns() - before_ns;
        let left_ns = match deadline.checked_duration_since(now) {
            Some(left) => left.as_nanos() as i64,
            None => -(now.duration_since(deadline).as_nanos() as i64),
        };
        (gap_ns, before_ns + left_ns)
    });
    tries.min().expect("there are eight").1
}

/// How long this thread has used or waited for a processor; None if the kernel does not say. The processor time in
/// schedstat lags by up to a tick for a running thread; the clock is the same figure, up to date.
fn busy_ns() -> Option<i64> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited_ns: i64 = account.split_whitespace().nth(1)?.parse().ok()?;
    Some(clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + waited_ns)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(data: &[u8]) -> String {
    let mut text = String::new();
    for chunk in data.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, i| {
            bits << 8 | u32::from(*chunk.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize] as char;
            text.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

fn bytes(base64: &str) -> Vec<u8> {
    let mut data = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for digit in base64
        .bytes()
        .filter_map(|c| ALPHABET.iter().position(|&a| a == c))
    {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            data.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    data
}
