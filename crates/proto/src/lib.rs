//! Sans-IO grammar of git-receive-pack: what a client reads from and writes to the other end of a push.
//!
//! This crate owns the bytes between two HTTP bodies and a push: the ref advertisement ([`Advertisement`],
//! [`Capabilities`]), the update request ([`Request`], [`ClientCapabilities`]), the multiplexed answer ([`Sideband`])
//! and the status report in it ([`ReportStatus`]). It refuses everything else: it opens no socket or file, reads no
//! clock and no environment, starts no thread, prints nothing, and makes no packs. Push certificates (`push-cert`) and
//! protocol version 2, which receive-pack doesn't speak, are not covered.
//!
//! In the order of a push:
//!
//! 1. feed the body of `GET info/refs?service=git-receive-pack` to [`AdvertisementParser`] (or [`Advertisement::parse`]);
//! 2. [`ClientCapabilities::negotiate`] what to ask for;
//! 3. [`Request::encode`] the commands; the pack follows them directly if [`Request::needs_pack`];
//! 4. feed the answer to [`Sideband`] if `side-band-64k` was negotiated, and its [`Band::Data`] to [`ReportParser`];
//!    without the sideband the answer is the report ([`ReportStatus::parse`]);
//! 5. ask [`ReportStatus::for_update`] what became of each ref.
//!
//! All readers take bytes as they come, split anywhere, and give the same result for any split. Bytes from the network are
//! taken to be hostile: lengths are bounded, nothing panics on them, and errors quote at most a masked prefix.
//!
//! The grammar is that of gitprotocol-common(5), gitprotocol-pack(5), gitprotocol-capabilities(5) and gitprotocol-http(5).
//! Where these are silent, git's own client (connect.c, send-pack.c) is followed, and the place says so.

mod advertisement;
mod capabilities;
mod command;
mod error;
mod pktline;
mod refname;
mod report;
mod sideband;

pub use advertisement::{AdvertisedRef, Advertisement, AdvertisementParser};
pub use capabilities::{Capabilities, ClientCapabilities, Wanted};
pub use command::{RefUpdate, Request};
pub use error::{Error, Missing, Part};
pub use pktline::{MAX_DATA, MAX_LINE, Packet, PacketSink, Splitter, encode_flush, encode_line};
pub use refname::is_pushable;
pub use report::{RefOutcome, RefStatus, ReportParser, ReportStatus, Rewrite};
pub use sideband::{Band, BandSink, Sideband};

/// Bytes of advertisement or report that are read before a server is taken to be misbehaving: room for some five million
/// refs of ordinary names, and a bound to what a server can make a client hold in memory.
pub const DEFAULT_LIMIT: u64 = 512 * 1024 * 1024;
