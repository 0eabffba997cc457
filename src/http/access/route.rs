//! What a route is: its method, its path, and who may use it.

/// The method of a route. `HEAD` works wherever `Get` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads; changes nothing.
    Get,
    /// Changes something.
    Post,
    /// Removes something.
    Delete,
}

impl Verb {
    /// Returns the word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Delete => "DELETE",
        }
    }
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody; credentials are ignored.
    All,
    /// Any person or running job.
    Read,
    /// Anyone who signs with the webhook's secret; other credentials are ignored.
    Signed,
    /// A person who may write.
    Write,
    /// A person who may write, or a running job (within its grants).
    WriteOrJob,
    /// A person who may decide; never a job.
    Decide,
    /// A running job.
    Job,
    /// A person in a browser, or the operator; no token and no job.
    Session,
    /// An admin in a browser, or the operator.
    Admin,
    /// The same, or a token with the scope for metrics.
    Metrics,
}

/// One route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub verb: Verb,
    /// The path; `{name}` stands for one segment, a last `{*name}` for the rest.
    pub path: &'static str,
    /// Who may use it.
    pub who: Who,
    /// Whether it exists only on the Unix socket.
    pub is_socket_only: bool,
}
