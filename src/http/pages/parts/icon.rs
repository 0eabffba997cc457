//! Icons of the shell: inline SVG with one stroke width, always with a word or a label.

use std::fmt;

use askama::filters::HtmlSafe;

/// An icon on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Icon {
    Home,
    Chat,
    Talk,
    Document,
    Proposal,
    Search,
    Person,
    Warning,
    Link,
    Info,
    Done,
}

impl HtmlSafe for Icon {}

impl Icon {
    fn paths(self) -> &'static str {
        match self {
            Icon::Home => "<path d='M3.5 9.5 10 4l6.5 5.5V16h-4.2v-4H7.7v4H3.5z'/>",
            Icon::Chat => "<path d='M4 4h12v9H9.5L6 16.5V13H4z'/><path d='M7 7.5h6M7 10h4'/>",
            Icon::Talk => "<path d='M3 4.5h14v9H9l-4 3v-3H3z'/>",
            Icon::Document => "<path d='M5 3h6.5L15 6.5V17H5z'/><path d='M7.5 10h5M7.5 13h5'/>",
            Icon::Proposal => "<path d='M11 4h5v5M16 4l-6 6'/><path d='M8 5H4v11h11v-4'/>",
            Icon::Search => "<circle cx='8.8' cy='8.8' r='5.3'/><path d='m12.8 12.8 3.7 3.7'/>",
            Icon::Person => {
                "<circle cx='10' cy='7' r='3.2'/><path d='M4 17c.6-3 3-4.6 6-4.6s5.4 1.6 6 4.6'/>"
            }
            Icon::Warning => "<path d='M10 3.5 17.5 16.5h-15z'/><path d='M10 8.5v4M10 14.7v.1'/>",
            Icon::Link => {
                "<path d='M3 8a10 10 0 0 1 14 0M5.5 11a6.4 6.4 0 0 1 9 0M8 14a2.9 2.9 0 0 1 4 0'/>"
            }
            Icon::Done => "<circle cx='10' cy='10' r='7'/><path d='m7 10.2 2.2 2.2L13.2 8'/>",
            Icon::Info => "<circle cx='10' cy='10' r='7'/><path d='M10 9.2v4.3M10 6.5v.1'/>",
        }
    }
}

impl fmt::Display for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.paths();
        write!(f, "<svg class=\"icon\" viewBox=\"0 0 20 20\" aria-hidden=\"true\">{paths}</svg>")
    }
}
