//! Frames and header blocks as octets.

/// A frame's octets.
///
/// # Panics
/// When the payload is longer than a frame can be.
pub fn encode(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length").to_be_bytes();
    assert_eq!(length[0], 0, "a frame's length has 24 bits");
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// An answer's header block, every field a literal (RFC 7541, section 6.2.2). A status of 0 is left out.
///
/// # Panics
/// When a name or value is longer than 16 KiB.
pub fn block(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    if status > 0 {
        // The name is the static table's eighth.
        block.push(8);
        string(&mut block, &status.to_string());
    }
    for (name, value) in fields {
        block.push(0);
        string(&mut block, name);
        string(&mut block, value);
    }
    block
}

/// A string literal (RFC 7541, sections 5.1 and 5.2), without Huffman coding.
fn string(block: &mut Vec<u8>, text: &str) {
    let length = text.len();
    assert!(length < 16 * 1024 + 127, "longer than any test needs");
    if length < 127 {
        block.push(length as u8);
    } else {
        let rest = length - 127;
        block.extend_from_slice(&[127, (rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8]);
    }
    block.extend_from_slice(text.as_bytes());
}
