//! Waking a thread that waits on a socket.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Wake,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fd::AsFd,
    io::Errno,
};

#[cfg(unix)]
type Half = std::os::unix::net::UnixStream;
#[cfg(not(unix))]
type Half = std::net::TcpStream;

const QUIET: u8 = 0;
const WAITING: u8 = 1;
const RUNG: u8 = 2;

/// Can be rung from any thread, and is heard by the one that waits with it. Rung while nobody waits, it costs no system call.
pub(crate) struct Alarm {
    state: AtomicU8,
    mouth: Half,
    ear: Half,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let (mouth, ear) = pair()?;
        mouth.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        Ok(Alarm {
            state: AtomicU8::new(QUIET),
            mouth,
            ear,
        })
    }

    pub(crate) fn ring(&self) {
        if self.state.swap(RUNG, Ordering::AcqRel) == WAITING {
            // A full pipe is heard just as well.
            (&self.mouth).write_all(&[0]).ok();
        }
    }

    /// Whether it was rung since it was last silenced.
    pub(crate) fn is_rung(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNG
    }

    /// Silence it: what it was rung for will be looked after now. Whether it was rung.
    pub(crate) fn silence(&self) -> bool {
        self.state.swap(QUIET, Ordering::AcqRel) == RUNG
    }

    /// Wait until it is rung, one of `fds` is ready, or `timeout` passes. Only one thread at a time may wait.
    pub(crate) fn wait(&self, fds: &[(impl AsFd, PollFlags)], timeout: Option<Duration>) -> io::Result<Vec<PollFlags>> {
        if self
            .state
            .compare_exchange(QUIET, WAITING, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(vec![PollFlags::empty(); fds.len()]);
        }
        let mut polled: Vec<_> = fds.iter().map(|(fd, flags)| PollFd::new(fd, *flags)).collect();
        polled.push(PollFd::new(&self.ear, PollFlags::IN));
        // Longer than the clock can tell is as good as for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let outcome = rustix::event::poll(&mut polled, timeout.as_ref());
        // From here on ringing costs no system call again; that it was rung stays to be seen.
        self.state
            .compare_exchange(WAITING, QUIET, Ordering::AcqRel, Ordering::Acquire)
            .ok();
        match outcome {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(vec![PollFlags::empty(); fds.len()]),
            Err(err) => return Err(err.into()),
        }
        let mut ready: Vec<_> = polled.iter().map(PollFd::revents).collect();
        if ready.pop().is_some_and(|ear| !ear.is_empty()) {
            while matches!((&self.ear).read(&mut [0; 64]), Ok(1..)) {}
        }
        Ok(ready)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(unix)]
fn pair() -> io::Result<(Half, Half)> {
    Half::pair()
}

/// Loopback TCP, where the system has no cheaper pair that can be waited on together with sockets.
#[cfg(not(unix))]
fn pair() -> io::Result<(Half, Half)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let mouth = Half::connect(listener.local_addr()?)?;
    let ours = mouth.local_addr()?;
    loop {
        let (ear, peer) = listener.accept()?;
        if peer == ours {
            mouth.set_nodelay(true)?;
            return Ok((mouth, ear));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &[(Half, PollFlags)] = &[];

    #[test]
    fn a_ring_before_the_wait_is_heard() {
        let alarm = Alarm::new().unwrap();
        alarm.ring();
        alarm.wait(NOTHING, None).unwrap();
        assert!(alarm.is_rung() && alarm.silence() && !alarm.is_rung());
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_wait() {
        let alarm = Arc::new(Alarm::new().unwrap());
        for _ in 0..100 {
            let other = alarm.clone();
            let ringing = std::thread::spawn(move || other.ring());
            while !alarm.silence() {
                alarm.wait(NOTHING, None).unwrap();
            }
            ringing.join().unwrap();
        }
    }
}
