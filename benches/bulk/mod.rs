//! What benches of transports share: a clock of processor time for criterion, and the exchanges that are timed.

use std::{io::Read, time::Duration};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use rgit_transport::{Body, Transport};
use rustix::time::{ClockId, clock_gettime};

/// Processor time, read before and after what is measured. The two may differ in order: to look costs something, too.
pub(crate) struct ProcessorTime {
    pub(crate) begin: fn() -> Duration,
    pub(crate) end: fn() -> Duration,
}

impl Measurement for ProcessorTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        (self.begin)()
    }

    fn end(&self, begun: Duration) -> Duration {
        (self.end)().saturating_sub(begun)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        // A duration looks the same by whatever clock.
        WallTime.formatter()
    }
}

/// What the thread that asks has spent.
pub(crate) fn thread_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(spent).expect("no thread has worked for less than nothing")
}

/// Send `body`; what the server says of it.
pub(crate) fn upload(transport: &dyn Transport, url: &str, body: Body<'_>) -> String {
    let request = http::Request::post(url).body(body).expect("a request");
    let response = transport.exchange(request).expect("an answer");
    let mut text = String::new();
    response.into_body().read_to_string(&mut text).expect("its body");
    text
}

/// Throw an answer away; how many bytes it had.
pub(crate) fn download(transport: &dyn Transport, url: &str) -> u64 {
    let request = http::Request::get(url).body(Body::Empty).expect("a request");
    let response = transport.exchange(request).expect("an answer");
    let (mut body, mut piece, mut got) = (response.into_body(), vec![0; 128 * 1024], 0);
    loop {
        match body.read(&mut piece).expect("its body") {
            0 => return got,
            count => got += count as u64,
        }
    }
}
