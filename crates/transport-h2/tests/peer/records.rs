//! Records of TLS, as someone on the way sees them.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
};

use rgit_testkit::{
    certificate::Authority,
    frames::{Server, kind, setting},
};
use rgit_transport::{Body, Transport};

use crate::{
    support::{endless, post, read},
    versions::trusting,
};

/// Application data (RFC 8446, section 5.1), and what is around it there: a byte of type within, a tag of 16 behind.
const APPLICATION_DATA: u8 = 23;
const AROUND: usize = 17;

/// Passes one connection on to `server`, and tells how much plaintext each record of the client's held.
fn listening_in(server: SocketAddr) -> (u16, JoinHandle<io::Result<Vec<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let listening = std::thread::spawn(move || {
        let (mut client, _) = listener.accept()?;
        let mut upstream = TcpStream::connect(server)?;
        let (mut back, mut to_client) = (upstream.try_clone()?, client.try_clone()?);
        let answers = std::thread::spawn(move || io::copy(&mut back, &mut to_client));
        let mut records = Vec::new();
        let mut head = [0; 5];
        while client.read_exact(&mut head).is_ok() {
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            let mut record = vec![0; length];
            client.read_exact(&mut record)?;
            if head[0] == APPLICATION_DATA {
                records.push(length - AROUND);
            }
            upstream.write_all(&head)?;
            upstream.write_all(&record)?;
        }
        upstream.shutdown(std::net::Shutdown::Write)?;
        answers.join().unwrap().ok();
        Ok(records)
    });
    (port, listening)
}

/// How many records, and how many full ones among them, an upload into a window of 65,535 bytes and what `more` makes of it leaves in.
fn upload(more: u32) -> (usize, usize) {
    const BODY: usize = 60_000;
    let authority = Authority::new();
    let server = Server::start_tls(authority.server_config(&["127.0.0.1"], &[b"h2"]), move |_, mut peer| {
        if more == 0 {
            peer.greet(&[])?;
        } else {
            peer.greet(&[(setting::INITIAL_WINDOW_SIZE, more)])?;
            peer.window_update(0, more)?;
        }
        let stream = peer.request()?;
        peer.answer(stream, "first")?;
        let stream = peer.request()?;
        let mut got = 0;
        while got < BODY {
            got += peer.until(kind::DATA)?.payload.len();
        }
        peer.answer(stream, "done")
    });
    let (port, listening) = listening_in(server.address());
    let (transport, _directory) = trusting(&authority);
    let url = format!("https://127.0.0.1:{port}/");
    // By its answer the SETTINGS have come.
    read(transport.exchange(post(&url, Body::Empty)).unwrap()).unwrap();
    let body = Body::stream(Some(BODY as u64), endless(BODY as u64));
    assert_eq!(read(transport.exchange(post(&url, body)).unwrap()).unwrap(), b"done");
    drop((transport, server));
    let records = listening.join().unwrap().unwrap();
    let full = records.iter().filter(|length| **length == 16_384).count();
    (records.len(), full)
}

#[test]
fn records_end_where_frames_do_while_the_window_is_tight() {
    let (tight, _) = upload(0);
    let (wide, full) = upload(16 << 20);
    // Four frames of about 16 KiB and their heads leave in two records each, or all in four.
    assert!(
        tight >= wide + 3,
        "{tight} records through a tight window, {wide} through a wide one"
    );
    assert!(full >= 3, "{full} of {wide} records are full");
}
