//! A toy: SET NX PX on the first node, over a bare socket.

mod fencepost_adapter;

use fencepost_adapter::{fail, granted_until, info, now_ns, ok, serve, Answer, Lock, Node};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Result, Write};
use std::net::TcpStream;
use std::process;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const IF_MINE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

struct Toy {
    name: String,
    replies: Mutex<BufReader<TcpStream>>,
}

fn main() {
    serve(|nodes, settings| open(&nodes[0], settings).map_err(|error| error.to_string()))
}

fn open(first: &Node, settings: &Value) -> Result<Toy> {
    let name = settings["manifest"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_string();
    let socket = TcpStream::connect((first.host.as_str(), first.port))?;
    socket.set_nodelay(true)?;
    let toy = Toy {
        name,
        replies: Mutex::new(BufReader::new(socket)),
    };
    if let Some(password) = &first.password {
        toy.ask(&["AUTH", password])?;
    }
    Ok(toy)
}

impl Toy {
    /// One request, and its reply of one line.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let parts = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*{}\r\n{}", words.len(), parts.collect::<String>());
        let mut replies = self.replies.lock().expect("no thread panics while it asks");
        replies.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        replies.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }
}

impl Lock for Toy {
    fn acquire(&self, key: &str, ttl: Duration) -> Answer {
        let value = format!("{}-{}-{}", self.name, process::id(), now_ns());
        let deadline = Instant::now() + ttl;
        match self.ask(&["SET", key, &value, "NX", "PX", &ttl.as_millis().to_string()]) {
            Ok(reply) if reply == "+OK" => granted_until(value.as_bytes(), deadline),
            Ok(reply) => fail(reply),
            Err(error) => info(error),
        }
    }

    fn extend(&self, _key: &str, _value: &[u8], _ttl: Duration) -> Answer {
        fail("this toy cannot extend")
    }

    fn release(&self, key: &str, value: &[u8]) -> Answer {
        match self.ask(&["EVAL", IF_MINE, "1", key, &String::from_utf8_lossy(value)]) {
            Ok(reply) if reply == ":1" => ok(),
            Ok(reply) => fail(reply),
            Err(error) => info(error),
        }
    }

    fn describe(&self) -> Value {
        json!({"library": "a socket"})
    }
}
