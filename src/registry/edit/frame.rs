//! How a registry's text begins and ends, which a tree of it does not keep.

const MARK: char = '\u{feff}';

/// What the tree does not keep of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// It begins with a byte order mark.
    mark: bool,
    /// All of its lines end as Windows ends them.
    carriage_returns: bool,
    /// Its last line has no end.
    open: bool,
}

impl Frame {
    /// That of a text.
    pub(super) fn of(text: &str) -> Self {
        let ends = text.matches('\n').count();
        Self {
            mark: text.starts_with(MARK),
            carriage_returns: ends > 0 && text.matches("\r\n").count() == ends,
            open: !text.is_empty() && !text.ends_with('\n'),
        }
    }

    /// The text of an edited tree, as the text was before.
    pub(super) fn around(self, tree: &str) -> String {
        let mut text = tree.replace("\r\n", "\n");
        if self.open && text.ends_with('\n') {
            text.pop();
        }
        if self.carriage_returns {
            text = text.replace('\n', "\r\n");
        }
        if self.mark && !text.starts_with(MARK) {
            text.insert(0, MARK);
        }
        text
    }
}
