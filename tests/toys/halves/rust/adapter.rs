//! A lock that asks nobody: the key says how it behaves.

mod fencepost_adapter;

use fencepost_adapter::{
    fail, granted, granted_for, granted_until, info, ok, serve, timed, timed_on_this_thread,
    Answer, Lock, Node,
};
use serde_json::{json, Value};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const NOT_TEXT: &[u8] = b"\xff\x00A";

struct Toy {
    settings: Value,
    renews: bool,
    meeting: Barrier,
}

fn main() {
    serve(open)
}

fn open(nodes: Vec<Node>, settings: &Value) -> Result<Toy, String> {
    let first = nodes.first().ok_or("there are no nodes")?;
    println!("opening {}:{}", first.host, first.port);
    Ok(Toy {
        settings: settings.clone(),
        renews: first.host == "renews",
        meeting: Barrier::new(2),
    })
}

impl Lock for Toy {
    fn acquire(&self, key: &str, ttl: Duration) -> Answer {
        match key {
            "until" => return granted_until(b"v", Instant::now() + ttl),
            "for" => {
                let ((), call) = timed(|| std::thread::sleep(Duration::from_millis(20)));
                return granted_for(b"v", ttl.as_secs_f64() * 1000.0, call);
            }
            "for, on this thread" => {
                let ((), call) =
                    timed_on_this_thread(|| std::thread::sleep(Duration::from_millis(20)));
                return granted_for(b"v", ttl.as_secs_f64() * 1000.0, call);
            }
            "yes" => {
                let ((), call) = timed(|| std::thread::sleep(Duration::from_millis(20)));
                return granted(NOT_TEXT, call).with("token", 7);
            }
            "held" => return fail("somebody\n\telse has it"),
            "unknown" => return info("no reply"),
            "panic" => panic!("out of luck"),
            "panic elsewhere" => std::thread::spawn(|| std::process::abort()).join().unwrap(),
            "meet" => {
                self.meeting.wait(); // until two tasks are here at once
                return granted_until(b"v", Instant::now());
            }
            "hang" => std::thread::sleep(Duration::from_secs(3600)),
            _ => (),
        }
        println!("printed by the library");
        println!("and once more");
        granted_until(b"v", Instant::now() + ttl)
            .with("token", 7)
            .with("granted_ms", 2000)
            .with("requested_ns", 1)
    }

    fn extend(&self, _key: &str, _value: &[u8], _ttl: Duration) -> Answer {
        fail("it cannot extend")
    }

    fn release(&self, _key: &str, value: &[u8]) -> Answer {
        if value == NOT_TEXT {
            ok()
        } else {
            fail("another value")
        }
    }

    fn held(&self, _key: &str, value: &[u8]) -> Answer {
        if value == b"v" {
            ok()
        } else {
            fail("it is another one")
        }
    }

    fn renews(&self) -> bool {
        self.renews
    }

    fn describe(&self) -> Value {
        json!({"library": "toy 1.0", "settings": self.settings})
    }
}
