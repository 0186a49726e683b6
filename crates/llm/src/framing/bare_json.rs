//! JSON in an event stream outside of any event, on one line or several.

/// Collects lines of JSON until the opening bracket is closed.
#[derive(Debug, Default)]
pub(super) struct BareJson {
    bytes: Vec<u8>,
    /// Number of open brackets.
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl BareJson {
    /// The bytes received so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a line; `true` when it closes the first bracket.
    pub(super) fn push(&mut self, line: &[u8]) -> bool {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        for byte in line {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth += 1,
                b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0
    }

    /// Discards the collected lines.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
