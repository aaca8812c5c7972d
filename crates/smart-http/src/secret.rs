//! Bytes that must not be seen: usernames, passwords, helper extras. Overwritten on drop as well as safe code can.

/// A byte string that shows nothing and is zeroed on drop.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Secret(bytes.into())
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Keeps the optimiser from dropping a write to memory that is about to be freed.
        std::hint::black_box(&self.0);
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}
