use std::time::Duration;

/// The largest window of RFC 9113, section 6.9.1.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// A connection's window begins with this and can't be made smaller (RFC 9113, section 6.9.2).
const SMALLEST_CONNECTION_WINDOW: u32 = 65_535;
/// The bounds of SETTINGS_MAX_FRAME_SIZE (RFC 9113, section 6.5.2).
const FRAME_SIZES: std::ops::RangeInclusive<u32> = 16_384..=16_777_215;

/// How HTTP/2 is spoken. Sizes are in bytes.
///
/// Figures come from `cargo bench --bench h2` (loopback, TLS 1.3 with AES-256 by ring, a 2-core machine that others used, too: CPU time
/// of the client's thread is what can be compared, in seconds a GB).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// How much of one answer the server may send before it was read (`rgit.h2.streamWindow`). Default: 32 MiB.
    ///
    /// 1 Gbit/s at a round trip of 200 ms keeps 25 MB on its way. h2 renews a window when half of it is used, so that a server has
    /// between 16 and 32 MiB to spend, 25 MB in the middle. It is also the most that lies in memory when an answer is not read; while
    /// one is being read, [`read_budget`](Self::read_budget) is.
    pub stream_window: u32,
    /// The same for all answers on a connection together (`rgit.h2.connectionWindow`). Default: 48 MiB, so that one answer that nobody
    /// reads leaves room for others.
    pub connection_window: u32,
    /// The largest frame that the server may send (`rgit.h2.maxFrameSize`). Default: 64 KiB.
    ///
    /// Each frame costs h2 a look-up and an allocation, so that larger ones than the protocol's 16 KiB are cheaper; very large ones are
    /// allocations of fresh pages, which the kernel has to clear each time. At
    /// 16 KiB, 64 KiB, 256 KiB and 1 MiB a download took 0.47, 0.37, 0.34 and 0.22 s a GB plain, 0.58, 0.38, 0.82 and 0.56 over TLS.
    pub max_frame_size: u32,
    /// The largest header list taken, as RFC 9113 counts it: names and values plus 32 a line. Default: 64 KiB, as with HTTP/1.1.
    pub max_header_list: u32,
    /// How much of one request's body is taken from its reader before it is on the wire. Default: 1 MiB.
    ///
    /// Several chunks, so that sending and reading the body overlap in what the kernel does. What is on its way is no part of it. h2's own
    /// default of 409,600 bytes holds one and a half chunks; 4 MiB no longer fit the caches and cost a third more CPU
    /// (plain: 0.21 to 0.24 up to 1 MiB, 0.27 to 0.48 at 4 MiB).
    pub send_buffer: usize,
    /// How much of a body is read at a time. Default: 256 KiB. From 64 KiB up the CPU spent is the same within the noise.
    pub chunk: usize,
    /// How much is taken from the socket before what came is looked at. Default: 256 KiB, what stays in the second cache. More would
    /// be read ahead of those who ask for it, up to the whole window.
    pub read_budget: usize,
    /// How long nothing of an exchange may move before it is given up. Default: 300 seconds, as with HTTP/1.1; a server that counts
    /// objects or checks connectivity of a large push is silent for minutes. Time in which the request's body blocks is not counted.
    pub idle_timeout: Duration,
    /// How long a connection without exchanges is kept. Default: 120 seconds.
    pub idle_age: Duration,
    /// How often a connection without exchanges is asked by PING whether it is still there (RFC 9113, section 6.7), as long as it is
    /// kept. Default: never; a command's connections don't lie idle long enough for anything on the way to forget them.
    pub ping_interval: Duration,
    /// How long such a PING may go unanswered before the connection is dropped. Default: 10 seconds. By then TCP has sent a lost packet
    /// again three times, even if it knows nothing of the path (RFC 6298: after 1, 3 and 7 seconds).
    pub ping_patience: Duration,
    /// How long to stay away after a server's ENHANCE_YOUR_CALM. Doubled each time, up to sixteenfold. Default: 1 second.
    pub calm: Duration,
    /// Speak HTTP/2 to `http://` without having been told that the server does (RFC 9113, section 3.3). Default: no; `http://` is
    /// refused then, because a server of HTTP/1.1 would be sent bytes that mean nothing to it.
    pub prior_knowledge: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            stream_window: 32 * 1024 * 1024,
            connection_window: 48 * 1024 * 1024,
            max_frame_size: 64 * 1024,
            max_header_list: 64 * 1024,
            send_buffer: 1024 * 1024,
            chunk: 256 * 1024,
            read_budget: 256 * 1024,
            idle_timeout: Duration::from_secs(300),
            idle_age: Duration::from_secs(120),
            ping_interval: Duration::ZERO,
            ping_patience: Duration::from_secs(10),
            calm: Duration::from_secs(1),
            prior_knowledge: false,
        }
    }
}

impl Tuning {
    /// Sets [`stream_window`](Self::stream_window), which is never above 2³¹ − 1.
    pub fn stream_window(mut self, bytes: u32) -> Self {
        self.stream_window = bytes.min(LARGEST_WINDOW);
        self
    }

    /// Sets [`connection_window`](Self::connection_window), which is never below 65,535 nor above 2³¹ − 1.
    pub fn connection_window(mut self, bytes: u32) -> Self {
        self.connection_window = bytes.clamp(SMALLEST_CONNECTION_WINDOW, LARGEST_WINDOW);
        self
    }

    /// Sets [`max_frame_size`](Self::max_frame_size), which is never below 16,384 nor above 16,777,215.
    pub fn max_frame_size(mut self, bytes: u32) -> Self {
        self.max_frame_size = bytes.clamp(*FRAME_SIZES.start(), *FRAME_SIZES.end());
        self
    }

    /// Sets [`max_header_list`](Self::max_header_list).
    pub fn max_header_list(mut self, bytes: u32) -> Self {
        self.max_header_list = bytes;
        self
    }

    /// Sets [`send_buffer`](Self::send_buffer), which is never below 16 KiB.
    pub fn send_buffer(mut self, bytes: usize) -> Self {
        self.send_buffer = bytes.max(16 * 1024);
        self
    }

    /// Sets [`chunk`](Self::chunk), which is never below 4 KiB.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes.max(4096);
        self
    }

    /// Sets [`read_budget`](Self::read_budget), which is never below 16 KiB.
    pub fn read_budget(mut self, bytes: usize) -> Self {
        self.read_budget = bytes.max(16 * 1024);
        self
    }

    /// Sets [`idle_timeout`](Self::idle_timeout).
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets [`idle_age`](Self::idle_age).
    pub fn idle_age(mut self, age: Duration) -> Self {
        self.idle_age = age;
        self
    }

    /// Sets [`ping_interval`](Self::ping_interval); zero for never.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.ping_interval = interval;
        self
    }

    /// Sets [`ping_patience`](Self::ping_patience).
    pub fn ping_patience(mut self, patience: Duration) -> Self {
        self.ping_patience = patience;
        self
    }

    /// Sets [`calm`](Self::calm).
    pub fn calm(mut self, pause: Duration) -> Self {
        self.calm = pause;
        self
    }

    /// Sets [`prior_knowledge`](Self::prior_knowledge).
    pub fn prior_knowledge(mut self, known: bool) -> Self {
        self.prior_knowledge = known;
        self
    }

    /// Within what the protocol allows, however the fields were set.
    pub(crate) fn checked(self) -> Tuning {
        let (stream, connection, frame) = (self.stream_window, self.connection_window, self.max_frame_size);
        let (send, chunk, budget) = (self.send_buffer, self.chunk, self.read_budget);
        self.stream_window(stream)
            .connection_window(connection)
            .max_frame_size(frame)
            .send_buffer(send.min(LARGEST_WINDOW as usize))
            .chunk(chunk.min(LARGEST_WINDOW as usize))
            .read_budget(budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_the_protocols_bounds() {
        let mut tuning = Tuning::default();
        (tuning.stream_window, tuning.connection_window) = (u32::MAX, 0);
        (tuning.max_frame_size, tuning.chunk, tuning.send_buffer) = (1, 0, 0);
        let tuning = tuning.checked();
        assert_eq!(
            (tuning.stream_window, tuning.connection_window),
            (LARGEST_WINDOW, 65_535)
        );
        assert_eq!(
            (tuning.max_frame_size, tuning.chunk, tuning.send_buffer),
            (16_384, 4096, 16_384)
        );
        assert_eq!(Tuning::default().max_frame_size(u32::MAX).max_frame_size, 16_777_215);
    }
}
