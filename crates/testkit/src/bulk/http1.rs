//! The same over HTTP/1.1: bodies with a length only.

use std::io::{self, Read, Write};

use super::{BATCH, READ};

/// The largest request head.
const HEAD: usize = 16 * 1024;

/// Serve the requests of a connection whose first bytes are `begun`; a GET yields `answer` bytes.
pub(super) fn serve<S: Read + Write>(wire: &mut S, begun: &[u8], answer: u64) -> io::Result<()> {
    let (mut buffer, piece) = (vec![0; READ], vec![b'x'; BATCH]);
    let mut head = begun.to_vec();
    loop {
        let body = loop {
            if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            if head.len() > HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match wire.read(&mut buffer)? {
                0 => return Ok(()),
                count => head.extend_from_slice(&buffer[..count]),
            }
        };
        let lines = String::from_utf8_lossy(&head[..body]).to_ascii_lowercase();
        let length: u64 = lines
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        let mut left = length.saturating_sub((head.len() - body) as u64);
        while left > 0 {
            match wire.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => left = left.saturating_sub(count as u64),
            }
        }
        if lines.starts_with("get ") {
            write!(wire, "HTTP/1.1 200 OK\r\nContent-Length: {answer}\r\n\r\n")?;
            let mut left = answer;
            while left > 0 {
                let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                wire.write_all(&piece[..count])?;
                left -= count as u64;
            }
        } else {
            let taken = length.to_string();
            write!(
                wire,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{taken}",
                taken.len()
            )?;
        }
        wire.flush()?;
        head.clear();
    }
}
