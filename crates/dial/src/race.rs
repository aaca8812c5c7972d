//! Connecting to one of several addresses: "Happy Eyeballs" (RFC 8305) in one `poll` loop, without threads.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::connection::poll;

/// How long one address is tried alone before the next joins: the delay RFC 8305, section 5 recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// A connected, non-blocking socket.
pub(crate) struct Winner {
    pub(crate) socket: TcpStream,
    /// From SYN to the answer.
    pub(crate) round_trip: Duration,
}

/// Nobody answered.
pub(crate) struct Lost {
    pub(crate) tried: Vec<SocketAddr>,
    /// What the earliest address to fail said; `None` when the deadline passed.
    pub(crate) source: Option<io::Error>,
}

struct Attempt {
    socket: Socket,
    begun: Instant,
}

/// Families by turns, the first address's family first, otherwise in the resolver's order (RFC 8305, section 4).
pub(crate) fn interleave(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    let first_is_v6 = all.first().is_some_and(SocketAddr::is_ipv6);
    let (mut preferred, mut other): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    preferred.reverse();
    other.reverse();
    let mut out = Vec::with_capacity(preferred.len() + other.len());
    while let Some(address) = preferred.pop() {
        out.push(address);
        out.extend(other.pop());
    }
    out.extend(other.into_iter().rev());
    out
}

/// Connects to whichever of `addresses` answers first, giving up at `deadline`.
pub(crate) fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<Winner, Lost> {
    let mut waiting = addresses.iter().copied().peekable();
    let mut running: Vec<Attempt> = Vec::new();
    let mut tried = Vec::new();
    let mut first_error = None;
    let mut next_start = Instant::now();
    loop {
        let now = Instant::now();
        if now >= deadline {
            return Err(Lost { tried, source: None });
        }
        if running.is_empty() || now >= next_start {
            if let Some(address) = waiting.next() {
                tried.push(address);
                match begin(address) {
                    Ok(socket) => running.push(Attempt { socket, begun: now }),
                    Err(err) => {
                        first_error.get_or_insert(err);
                        continue;
                    }
                }
                next_start = now + HEAD_START;
            } else if running.is_empty() {
                let source = first_error.or_else(|| Some(io::Error::from(io::ErrorKind::AddrNotAvailable)));
                return Err(Lost { tried, source });
            }
        }
        let until = match waiting.peek() {
            Some(_) => deadline.min(next_start),
            None => deadline,
        };
        let ready = match wait_for_any(&running, until.saturating_duration_since(Instant::now())) {
            Ok(ready) => ready,
            Err(err) => {
                return Err(Lost {
                    tried,
                    source: Some(err),
                });
            }
        };
        // From the back, so that removal moves none that is still to be looked at.
        for index in ready.into_iter().rev() {
            let attempt = running.swap_remove(index);
            match attempt
                .socket
                .take_error()
                .and_then(|pending| pending.map_or(Ok(()), Err))
            {
                Ok(()) => {
                    return Ok(Winner {
                        round_trip: attempt.begun.elapsed(),
                        socket: attempt.socket.into(),
                    });
                }
                Err(err) => {
                    first_error.get_or_insert(err);
                    next_start = Instant::now();
                }
            }
        }
    }
}

fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Requests are written in as few pieces as possible already: Nagle would only hold back their last segment.
    socket.set_tcp_nodelay(true)?;
    // A server may think for minutes without a byte; keepalive (git sets it, too) tells a dead path from a slow server.
    socket.set_keepalive(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => Ok(socket),
        Err(err)
            if err.kind() == io::ErrorKind::WouldBlock
                || err.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) =>
        {
            Ok(socket)
        }
        Err(err) => Err(err),
    }
}

/// Indices of the attempts that came to an end, ascending; none when `timeout` passed.
fn wait_for_any(running: &[Attempt], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut fds: Vec<_> = running
        .iter()
        .map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT))
        .collect();
    poll(&mut fds, timeout)?;
    Ok((0..fds.len())
        .filter(|&index| !fds[index].revents().is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns() {
        let got = interleave(addresses(&[
            "[::1]:1",
            "[::2]:1",
            "[::3]:1",
            "1.1.1.1:1",
            "[::1]:1",
            "2.2.2.2:1",
        ]));
        assert_eq!(
            got,
            addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"])
        );
        let got = interleave(addresses(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]));
        assert_eq!(got, addresses(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]));
    }

    #[test]
    fn a_refusing_address_costs_no_head_start() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(20);
        let won = connect(&[closed, open.local_addr().unwrap()], deadline).unwrap_or_else(|_| panic!("one listens"));
        assert_eq!(won.socket.peer_addr().unwrap(), open.local_addr().unwrap());
    }

    #[test]
    fn all_refusing_names_every_address_and_the_first_error() {
        let closed: Vec<_> = (0..2)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
            .collect();
        let Err(lost) = connect(&closed, Instant::now() + Duration::from_secs(20)) else {
            panic!("nobody listens")
        };
        assert_eq!(lost.tried, closed);
        assert_eq!(lost.source.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn the_deadline_ends_the_race() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Err(lost) = connect(&[open], Instant::now()) else {
            panic!("there was no time")
        };
        assert!(lost.source.is_none());
    }
}
