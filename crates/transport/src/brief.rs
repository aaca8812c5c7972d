/// In a request's extensions: neither this exchange nor any that follows it to the same origin for the same purpose moves much to the
/// server, as when refs are only listed.
///
/// A transport that has a choice may take it as leave to open a connection that would be a trap for a large upload. It is a hint: what
/// is sent all the same still arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief;
