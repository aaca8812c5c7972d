//! The link of a road, and the proof that it is what it says before anything is timed over it.
//!
//! The model is the testkit's relay in user space: half the round trip each way, a rate, a bounded queue, and one more
//! round trip for the handshake of a connection, taken before its first byte because the kernel accepts on loopback at
//! once. Slow start and loss are not in it, so a short transfer is faster here than over a kernel's TCP, which `--tun` measures.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::relay::{Link, Relay};

use super::{
    matrix::Road,
    results::LinkCheck,
    statistics::Summary,
    tun::{self, Tun},
};

/// Bytes on their way in one direction. A sender that has 4 MiB unacknowledged (Linux' usual `tcp_wmem`) moves that much
/// a round trip; here bytes leave the queue after half of one, so half as many come to the same.
const QUEUE: usize = 2 * 1024 * 1024;
/// How far a link may be from what it should be.
const TOLERANCE: f64 = 0.1;
/// What no scheduler promises to be better than, in seconds: a tenth of a round trip of 0 would be nothing.
const GRAIN: f64 = 0.001;
/// Above this the machine is what is measured, not the model.
const MACHINE: f64 = 400e6;
/// How long one stream lasts, about.
const STREAM: f64 = 0.6;

/// Of a packet of 1,500 bytes, the part that is a stream's: IP and TCP, with timestamps, take 52.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// What a stream of unknown speed is judged by: long enough for slow start over 200 ms, and short enough where packets are lost.
const PROBE: u64 = 16_000_000;
const LOSSY_PROBE: u64 = 400_000;

/// What the relay is told; `None` for loopback itself, which needs none, and for the kernel's.
pub(super) fn link(road: Road) -> Option<Link> {
    if road.tun || road.round_trip_ms == 0 && road.rate_mb_s.is_none() {
        return None;
    }
    let link = Link::round_trip(Duration::from_millis(road.round_trip_ms.into())).queue(QUEUE);
    Some(match road.rate_mb_s {
        Some(rate) => link.rate(u64::from(rate) * 1_000_000),
        None => link,
    })
}

/// Bytes a second that the model lets one connection have, where that is less than the machine's own speed.
fn expected(road: Road) -> Option<f64> {
    if road.tun {
        // Without a rate it is the kernel's windows that limit it, and with loss its congestion control: not the link's to promise.
        let rate = road.rate_mb_s.filter(|_| road.loss_per_mille == 0)?;
        return Some(f64::from(rate) * 1e6 * PAYLOAD);
    }
    let one_way = f64::from(road.round_trip_ms) / 2000.0;
    let queue = if one_way > 0.0 {
        QUEUE as f64 / one_way
    } else {
        f64::INFINITY
    };
    let rate = road.rate_mb_s.map_or(f64::INFINITY, |rate| f64::from(rate) * 1e6);
    Some(queue.min(rate)).filter(|speed| *speed < MACHINE)
}

/// Measures a link's round trip and throughput with plain TCP.
///
/// # Errors
/// When there are no ports, or the link is off by more than a tenth, unless `forced`.
pub(super) fn check(road: Road, forced: bool) -> anyhow::Result<LinkCheck> {
    let mut check = measure(road)?;
    let mut faults = faults(&check);
    // A machine that did something else for a moment gets a second chance.
    for _ in 0..2 {
        if faults.is_empty() {
            return Ok(check);
        }
        check = measure(road)?;
        faults = self::faults(&check);
    }
    if faults.is_empty() || forced {
        return Ok(check);
    }
    bail!(
        "the link of {road} is not what it should be: {}; is the machine busy? --force measures all the same",
        faults.join("; ")
    )
}

/// What is off by more than a tenth.
fn faults(check: &LinkCheck) -> Vec<String> {
    let wanted = f64::from(check.road.round_trip_ms) / 1000.0;
    let mut faults = Vec::new();
    let mut time = |what: &str, wanted: f64, found: f64| {
        if (found - wanted).abs() > (wanted * TOLERANCE).max(GRAIN) {
            faults.push(format!(
                "{what} takes {:.1} ms and should take {:.1}",
                found * 1000.0,
                wanted * 1000.0
            ));
        }
    };
    time("a round trip", wanted, check.round_trip_s);
    time("a new connection's first answer", 2.0 * wanted, check.first_answer_s);
    if let Some(expected) = check.expected_bytes_s {
        for (way, found) in [("up", check.up_bytes_s), ("down", check.down_bytes_s)] {
            if (found / expected - 1.0).abs() > TOLERANCE {
                faults.push(format!(
                    "a stream {way} moves {:.1} MB/s and should move {:.1}",
                    found / 1e6,
                    expected / 1e6
                ));
            }
        }
    }
    faults
}

fn measure(road: Road) -> anyhow::Result<LinkCheck> {
    let expected = expected(road);
    let bytes = match (road.tun, expected) {
        // Slow start is not what is judged: the second half of the stream is.
        (true, Some(expected)) => (expected * 2.0 * (STREAM + 10.0 * f64::from(road.round_trip_ms) / 1000.0)) as u64,
        (true, None) if road.loss_per_mille > 0 => LOSSY_PROBE,
        (true, None) => PROBE,
        (false, expected) => (expected.unwrap_or(MACHINE) * STREAM) as u64,
    };
    let tun = road.tun.then(|| Tun::start(road)).transpose()?;
    let listener = match &tun {
        Some(tun) => tun.on_server(|| TcpListener::bind((tun::SERVER, 0)))?,
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
    };
    let listener = listener.context("listen for the link's check")?;
    let target = listener.local_addr().context("listen for the link's check")?;
    let relay = link(road)
        .map(|link| Relay::start(target, link))
        .transpose()
        .context("start the relay")?;
    let address = relay.as_ref().map_or(target, Relay::address);
    let peer = thread::spawn(move || -> std::io::Result<f64> {
        echo(listener.accept()?.0)?;
        let up = drain(listener.accept()?.0, bytes)?;
        let mut stream = listener.accept()?.0;
        send(&mut stream, bytes)?;
        Ok(up)
    });
    let connect = || -> anyhow::Result<TcpStream> {
        let stream = match &tun {
            Some(tun) => tun.on_client(|| TcpStream::connect(address))?,
            None => TcpStream::connect(address),
        };
        stream.context("connect over the link")
    };
    let begun = Instant::now();
    let mut pings = pings(connect()?, begun).context("time round trips")?;
    let first_answer_s = pings.remove(0);
    let mut stream = connect()?;
    send(&mut stream, bytes).context("send a stream")?;
    drop(stream);
    let down_bytes_s = drain(connect()?, bytes).context("receive a stream")?;
    let up_bytes_s = match peer.join() {
        Ok(up) => up.context("receive a stream")?,
        Err(_) => bail!("the link's peer panicked"),
    };
    Ok(LinkCheck {
        road,
        kind: if tun.is_some() {
            "kernel TCP between network namespaces over TUN devices: delay, rate, loss of packets"
        } else if relay.is_some() {
            "relay in user space: delay, rate, queue of 2 MiB each way and connection, a round trip for the handshake"
        } else {
            "loopback, nothing in between"
        }
        .to_owned(),
        round_trip_s: Summary::of(pings).map_or(f64::NAN, |summary| summary.median),
        first_answer_s,
        expected_bytes_s: expected,
        up_bytes_s,
        down_bytes_s,
    })
}

/// Times of five exchanges of one byte; the first has the connection's beginning in it, made since `begun`.
fn pings(mut stream: TcpStream, mut begun: Instant) -> std::io::Result<Vec<f64>> {
    stream.set_nodelay(true)?;
    let mut byte = [0];
    let mut times = Vec::new();
    for _ in 0..6 {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        times.push(begun.elapsed().as_secs_f64());
        begun = Instant::now();
    }
    Ok(times)
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

fn send(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let block = vec![0; 128 * 1024];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64) as usize;
        stream.write_all(&block[..part])?;
        left -= part as u64;
    }
    Ok(())
}

/// Bytes a second in the second half of `bytes`, when a stream has found its speed.
fn drain(mut stream: TcpStream, bytes: u64) -> std::io::Result<f64> {
    let mut block = vec![0; 128 * 1024];
    let (mut got, mut half) = (0u64, None);
    while got < bytes {
        match stream.read(&mut block)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => got += read as u64,
        }
        if half.is_none() && got >= bytes / 2 {
            half = Some((Instant::now(), got));
        }
    }
    let (since, before) = half.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok((got - before) as f64 / since.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn road(round_trip_ms: u32, rate_mb_s: Option<u32>) -> Road {
        Road {
            round_trip_ms,
            rate_mb_s,
            ..Road::default()
        }
    }

    #[test]
    fn loopback_needs_no_relay() {
        assert!(link(road(0, None)).is_none());
        let link = link(road(100, Some(10))).expect("a link");
        assert_eq!(
            (link.round_trip, link.rate),
            (Duration::from_millis(100), Some(10_000_000))
        );
    }

    #[test]
    fn the_narrowest_place_is_what_is_expected() {
        assert_eq!(expected(road(0, None)), None);
        assert_eq!(expected(road(0, Some(10))), Some(10e6));
        assert_eq!(expected(road(100, None)), Some(QUEUE as f64 / 0.05));
        assert_eq!(expected(road(100, Some(1000))), Some(QUEUE as f64 / 0.05));
        assert_eq!(expected(road(1, None)), None);
    }

    /// Says nothing about how well this machine keeps time: only that a check measures, and what it makes of figures.
    #[test]
    fn a_link_is_measured_and_judged() {
        let mut check = measure(road(20, Some(2))).expect("a link");
        assert!(check.round_trip_s >= 0.02 && check.first_answer_s >= 0.04, "{check:?}");
        assert!(check.up_bytes_s > 0.0 && check.down_bytes_s > 0.0, "{check:?}");

        (check.round_trip_s, check.first_answer_s) = (0.0215, 0.041);
        (check.up_bytes_s, check.down_bytes_s) = (1.9e6, 2.1e6);
        assert_eq!(faults(&check), [""; 0]);
        check.round_trip_s = 0.0225;
        check.down_bytes_s = 1.7e6;
        let faults = faults(&check);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults[0].contains("22.5 ms") && faults[1].contains("1.7 MB/s"),
            "{faults:?}"
        );
    }
}
