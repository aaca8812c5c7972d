//! Which objects a push sends, and the pack as a stream.
