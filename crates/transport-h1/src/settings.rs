use std::time::Duration;

/// How HTTP/1.1 is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How long no byte may move in either direction before an exchange is given up. Default: 300 seconds; a server that counts
    /// objects or checks connectivity of a large push is silent for minutes. Time in which the request's body blocks is not counted.
    pub idle_timeout: Duration,
    /// Connections kept between exchanges.
    pub pool: PoolSettings,
    /// Bytes of body read and written at a time, and the largest chunk. Default: 128 KiB, eight TLS records.
    pub buffer: usize,
}

/// How many connections are kept idle, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSettings {
    /// For each origin. Default: 64, so that as many threads never close what they are about to open again.
    pub idle_per_origin: usize,
    /// Default: 120 seconds, more than git servers keep a connection open (Apache 5, nginx 75). What the server closed before that
    /// is noticed before use.
    pub idle_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            idle_timeout: Duration::from_secs(300),
            pool: PoolSettings::default(),
            buffer: 128 * 1024,
        }
    }
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            idle_per_origin: 64,
            idle_age: Duration::from_secs(120),
        }
    }
}

impl Settings {
    /// Sets [`idle_timeout`](Self::idle_timeout).
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets [`pool`](Self::pool).
    pub fn pool(mut self, pool: PoolSettings) -> Self {
        self.pool = pool;
        self
    }

    /// Sets [`buffer`](Self::buffer), which is never below 4 KiB.
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes.max(4096);
        self
    }
}

impl PoolSettings {
    /// Sets [`idle_per_origin`](Self::idle_per_origin).
    pub fn idle_per_origin(mut self, connections: usize) -> Self {
        self.idle_per_origin = connections;
        self
    }

    /// Sets [`idle_age`](Self::idle_age).
    pub fn idle_age(mut self, age: Duration) -> Self {
        self.idle_age = age;
        self
    }
}
