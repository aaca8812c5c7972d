/// In a request's extensions: it may go out as TLS 1.3 early data, before the handshake is through (RFC 8446, section 2.3).
///
/// A third party that recorded such a request can send it to the server again, as often as the server lets it (RFC 8470, section 2), and
/// whoever gets hold of the server's ticket key later can read it: early data has no forward secrecy. So only who knows what a request
/// asks for, and what secrets it holds, can say so. No other mark says that: what is [`Repeatable`](crate::Repeatable) may be a POST that
/// costs the server minutes each time, and may hold a password.
///
/// A transport heeds it only for a GET or HEAD without a body, and only where it was told to use early data at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Early;
