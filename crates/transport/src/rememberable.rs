/// In a request's extensions: an answer to it may be given again, for a while, to the same question with the same headers.
///
/// Only who knows what the request asks for can say so: what a Git server can do changes with its version, what refs it has with every
/// push. Whoever remembers decides by the answer, too, whether it is one of the first kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rememberable {
    /// What is remembered already will do. [`Wire::remembered`](crate::Wire::remembered) tells where it was given.
    Recall,
    /// What is remembered of the server turned out wrong: it is to be asked, and the rest forgotten.
    Anew,
}
