//! The little language of control headers: `key=value;flag`. Values hold no `;`.

/// Fields in their order: each key, with its value where it has one.
pub(crate) fn read(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let fields = text.split(';').map(str::trim).filter(|field| !field.is_empty());
    fields.map(|field| match field.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (field, None),
    })
}

/// Fields being written.
#[derive(Debug, Default)]
pub(crate) struct Fields(String);

impl Fields {
    pub(crate) fn flag(self, key: &str, is_set: bool) -> Self {
        match is_set {
            true => self.add(key),
            false => self,
        }
    }

    pub(crate) fn value(self, key: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.add(&format!("{key}={value}")),
            None => self,
        }
    }

    fn add(mut self, field: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(';');
        }
        self.0.push_str(field);
        self
    }

    /// As a header's value. Whoever wrote the fields put nothing into them that no header may hold.
    pub(crate) fn header(self) -> http::HeaderValue {
        http::HeaderValue::try_from(self.0).unwrap_or_else(|_| http::HeaderValue::from_static(""))
    }
}
