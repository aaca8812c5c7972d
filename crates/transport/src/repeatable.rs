/// In a request's extensions: processing it twice does no harm, though its method is not safe (RFC 9110, section 9.2.2).
///
/// Only who knows what the request asks for can say so: git's upload-pack is a POST and reads only. A transport may then send the
/// request again where a GET would be, when a connection dies under it without a byte of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeatable;
